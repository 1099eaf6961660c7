"""Kerberos tickets of this process: from a key tab or a ticket cache, for each login its own.

MIT Kerberos keeps those from a key tab in memory, and takes them again when half of their life is over or
less than a minute is left; while the KDC does not answer, the old ones serve until their end. No variable
of the process is set, so that logins of several principals stand side by side.
"""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.config.client.jaas import JAAS
from kafka_ferry.config.client.kerberos import SERVICE_NAME, KerberosLogin
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.memory_file import memory_file
from kafka_ferry.printable import printable

if TYPE_CHECKING:
    from types import ModuleType

_INSTALL: Final = (
    "Install it (the extra kerberos of kafka-ferry) where the flow's tasks run, and for Spark's executors: "
    "pip install gssapi. pip builds it with a C compiler and Kerberos's headers (Debian: libkrb5-dev)."
)
_REALM: Final = (
    "Check krb5.conf (/etc/krb5.conf, or the one that KRB5_CONFIG names) on this machine."
)
_CLOCK: Final = "Synchronize the clocks of this machine, the KDC and the brokers (NTP)."
_BASE: Final = 2**32 - 1765328384  # ERROR_TABLE_BASE_krb5
_UNREACHABLE: Final = _BASE + 156
_NO_SUCH_SERVICE: Final = _BASE + 7
# KRB5_FCC_NOFILE: of an empty cache, which no key in the key tab has filled.
_NO_TICKETS: Final = _BASE + 195
_ADVICE: Final = {
    _BASE
    + 6: "The KDC does not know the principal: check principal in sasl.jaas.config, and its realm.",
    _NO_SUCH_SERVICE: f"Check {SERVICE_NAME}, and that bootstrap.servers and the brokers' "
    "advertised.listeners name the hosts as the brokers' principals do.",
    _BASE + 18: "The KDC has locked the principal, or it has expired: ask the KDC's administrator.",
    _BASE + 23: "The principal's key has expired: make a new key tab (ktadd).",
    _BASE + 24: "The key tab holds an old key of the principal: make a new one (ktadd).",
    _BASE + 31: "The key tab holds an old key of the principal: make a new one (ktadd).",
    _BASE + 32: "The tickets in the cache have expired: get new ones (kinit), or use a key tab.",
    _BASE + 37: _CLOCK,
    _BASE + 153: _REALM,
    _BASE + 154: _REALM,
    _UNREACHABLE: f"Check that the KDC runs and that this machine reaches it. {_REALM}",
}
_LONGEST_REASON: Final = 300


def credentials_for(login: KerberosLogin) -> Any:
    """The login's credentials, with tickets that are still valid: ``gssapi.Credentials``.

    Raises:
        AccessDenied: the KDC gives no tickets for it, or the ticket cache has none.
        ClusterUnreachable: the KDC does not answer.
        ConfigError: the package ``gssapi`` is not installed, or the key tab cannot be read.
    """
    gssapi = gssapi_package(login)
    if login.uses_cache:
        try:
            return _from_cache(gssapi, login)
        except AccessDenied:
            if not login.key_tab:
                raise
    try:
        return _by_key(gssapi, login)
    except gssapi.exceptions.GSSError as error:
        raise kerberos_fault(error, f"{login.origin}: no Kerberos tickets", login) from None


def gssapi_package(login: KerberosLogin) -> ModuleType:
    """The package ``gssapi``, an extra.

    Raises:
        ConfigError: it is not installed, or finds no library of Kerberos.
    """
    try:
        import gssapi
    except (ImportError, OSError):
        reason = "needs the package gssapi for GSSAPI."
        raise ConfigError(login.origin, "sasl.mechanism", reason, advice=_INSTALL) from None
    package: ModuleType = gssapi
    return package


def kerberos_fault(error: Any, doing: str, login: KerberosLogin) -> FerryError:
    """The error for one of ``gssapi``'s.

    Args:
        error: the exception.
        doing: what failed, to precede a colon.
        login: the login.
    """
    code = getattr(error, "min_code", 0)
    if code == _UNREACHABLE:
        return ClusterUnreachable(f"{doing}: {_reason(error)}.", advice=_ADVICE[code])
    if code == _NO_TICKETS and login.key_tab:
        advice = f"See whose keys the key tab holds: klist -k {login.key_tab}"
        reason = f"{doing}: {login.key_tab} holds no key of {login.principal}."
        return AccessDenied(reason, advice=advice)
    advice = _ADVICE.get(code, f"Check principal and keyTab in {JAAS}. {_REALM}")
    return AccessDenied(f"{doing}: {_reason(error)}.", advice=advice)


def _from_cache(gssapi: ModuleType, login: KerberosLogin) -> Any:
    """The credentials of the login's ticket cache.

    Raises:
        AccessDenied: it has no tickets of the login that are valid, or another user has made it.
    """
    cache = _cache_name(gssapi, login)
    # Of a default one that is a collection, Kerberos takes the cache that has tickets.
    is_file = cache.rpartition(":")[0] in ("", "FILE")
    try:
        _require_own(cache)
        return _acquire(gssapi, login, {"ccache": cache} if is_file else {})
    except OSError as error:
        reason = error.strerror
    except gssapi.exceptions.GSSError as error:
        reason = _reason(error)
    where = login.cache or f"the default ticket cache ({cache})"
    whose = f" of {login.principal}" if login.principal else ""
    raise AccessDenied(
        f"{login.origin}: {where} holds no valid tickets{whose}: {reason}.",
        advice="Get tickets there (kinit), or use a key tab (useKeyTab, keyTab, principal).",
    )


def _cache_name(gssapi: ModuleType, login: KerberosLogin) -> str:
    """The login's ticket cache as Kerberos names it, such as ``FILE:/tmp/krb5cc_1000``."""
    if login.cache:
        return f"FILE:{login.cache}"
    return str(os.fsdecode(gssapi.raw.krb5_ccache_name(None)))


def _require_own(cache: str) -> None:
    """Check that tickets may be taken from a cache.

    The default one lies in a folder for all users. Where ``kinit`` has not made it yet, another user could: with
    tickets of another principal, or with a key to pass for a broker by.

    Raises:
        OSError: it is not there, or belongs to another user.
    """
    kind, _, place = cache.rpartition(":")
    if kind not in ("", "FILE", "DIR"):
        return
    # A link's owner says where it leads.
    owners = {Path(place).lstat().st_uid, Path(place).stat().st_uid}
    if not owners <= {os.geteuid(), 0}:
        reason = "it belongs to another user of this machine, who could have put any tickets there"
        raise PermissionError(errno.EPERM, reason)


def _by_key(gssapi: ModuleType, login: KerberosLogin) -> Any:
    content = login.carried_keys()
    # A cache of its own for each principal, key tab and process.
    cache = f"MEMORY:kafka-ferry-{os.getpid()}-{abs(hash(login))}"
    with nullcontext(login.key_tab) if content is None else memory_file(content) as file:
        return _acquire(gssapi, login, {"client_keytab": f"FILE:{file}", "ccache": cache})


def _acquire(gssapi: ModuleType, login: KerberosLogin, store: dict[str, str]) -> Any:
    kind = gssapi.NameType.kerberos_principal
    name = gssapi.Name(login.principal, kind) if login.principal else None
    credentials = gssapi.Credentials(name=name, store=store or None, usage="initiate")
    # Raises an error if it finds none but expired tickets.
    credentials.inquire(name=False, lifetime=True, usage=False, mechs=False)
    return credentials


def _reason(error: Any) -> str:
    """What Kerberos says, without the numbers and GSSAPI's general part where there is a special one."""
    message = " ".join(str(error).split()).rpartition("): ")[2]
    return printable(message)[:_LONGEST_REASON].rstrip(".") or "it gives no reason"
