"""Calls from the JVM into this process, which PySpark takes from any client that connects."""

from __future__ import annotations

from typing import Any


def require_token(gateway: Any) -> None:
    """Let Python's callback server take calls only with the gateway's own token, which the JVM then sends.

    PySpark gives that server none. py4j's client in the JVM, which has the token, loses it when it learns the
    server's port (``PythonClient.copyWith``): so it is replaced by one that has both.

    Args:
        gateway: PySpark's gateway to the JVM.
    """
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    token = gateway.java_parameters.auth_token
    if gateway.python_parameters.auth_token == token:
        return
    # The server reads it for each connection.
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_server: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    java_gateway, jvm = java_server.getGateway(), gateway.jvm
    client = java_gateway.getCallbackClient()
    held = java_gateway.getClass().getDeclaredField("cbClient")
    held.setAccessible(True)
    held.set(
        java_gateway,
        jvm.py4j.PythonClient(
            java_gateway,
            None,
            client.getPort(),
            client.getAddress(),
            0,
            jvm.java.util.concurrent.TimeUnit.SECONDS,
            jvm.javax.net.SocketFactory.getDefault(),
            java_server,
            False,
            0,
            token,
        ),
    )
