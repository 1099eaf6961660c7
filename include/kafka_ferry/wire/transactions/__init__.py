"""Requests of transactional producers, and how their transactions end."""
