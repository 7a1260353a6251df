"""Which version of a task a user gets: always the same one, and each version its share of the users.

Weighted rendezvous hashing (Thaler and Ravishankar, 1998; the weights by Schindelhauer and Schomaker, 2005): every
version draws a number from its name and the user's, the best one wins. A version that is added takes its share from all
others evenly and moves nobody between those; one that goes gives its users back.
"""

import math
from hashlib import blake2b

from halfline.context.templates.library import Task
from halfline.context.templates.task_template import TaskTemplate


def version_for(task: Task, tenant: str, user: str) -> TaskTemplate:
    """The version of this user of the tenant. Where none has a weight, the last by name."""
    weighted = [template for template in task.versions.values() if template.weight > 0.0]
    if not weighted:
        return task.versions[max(task.versions)]
    return max(weighted, key=lambda template: (_draw(template, tenant, user), template.version))


def _draw(template: TaskTemplate, tenant: str, user: str) -> float:
    """The logarithm of a number in (0, 1) to the power of 1 / weight: the larger, the better."""
    digest = blake2b(digest_size=8)
    for part in (template.name, template.version, tenant, user):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    number = (int.from_bytes(digest.digest(), "little") + 1) / (2**64 + 2)
    return math.log(number) / template.weight
