"""Whose KV may be shared with whom."""

from hashlib import blake2b

from halfline.model.executor import Mask


def namespace(*, tenant: str, model: str, kv_format: str, mask: Mask, adapter: str | None) -> str:
    """A name that is the same only if all of these are; whatever differs in one of them shares nothing.

    Tenants must not learn from each other's timing; model, format, mask and adapter each change the KV itself.
    `adapter` None: the model as it is.
    """
    parts = (tenant, model, kv_format, repr(mask), "" if adapter is None else f"adapter {adapter}")
    digest = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)  # lengths, or ("ab", "c") would be ("a", "bc")
    return digest.hexdigest()
