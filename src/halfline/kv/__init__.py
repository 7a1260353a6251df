"""Accounts of KV blocks: who holds which, and what is in them. No tensors."""
