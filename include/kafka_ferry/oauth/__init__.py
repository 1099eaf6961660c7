"""OAuth tokens for logins with OAUTHBEARER: fetched, kept until shortly before they expire, renewed."""

from kafka_ferry.oauth.access_token import AccessToken
from kafka_ferry.oauth.tokens import forget_token, token_for

__all__ = ["AccessToken", "forget_token", "token_for"]
