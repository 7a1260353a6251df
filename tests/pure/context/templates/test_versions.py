"""Which user gets which version, and what is counted of it."""

from collections import Counter

from halfline.context.templates.library import Task
from halfline.context.templates.outcomes import TaskOutcomes
from halfline.context.templates.task_template import TaskTemplate, read_template
from halfline.context.templates.versions import version_for


def template(version: str, weight: float) -> TaskTemplate:
    data = f'summary = "x"\ntask = "Do {version}."\ninput = "do"\nweight = {weight}\n'
    return read_template("do", version, data.encode(), {})


def task(**weights: float) -> Task:
    return Task("do", {version: template(version, weight) for version, weight in weights.items()})


def shares(of: Task, num_users: int = 2000) -> Counter[str]:
    return Counter(version_for(of, "team", f"user {number}").version for number in range(num_users))


def test_a_user_always_gets_the_same_version_and_versions_get_their_shares() -> None:
    found = shares(task(a=1, b=3, c=0))
    assert found == shares(task(a=1, b=3, c=0))
    assert set(found) == {"a", "b"}
    assert 0.70 < found["b"] / 2000 < 0.80


def test_a_version_that_is_added_moves_nobody_between_the_others() -> None:
    before, after = task(a=1, b=1), task(a=1, b=1, c=1)
    moved = set()
    for number in range(300):
        old, new = (version_for(each, "team", str(number)).version for each in (before, after))
        if old != new:
            moved.add(new)
    assert moved == {"c"}


def test_the_same_name_in_another_tenant_is_another_user() -> None:
    both = task(a=1, b=1)
    found = {version_for(both, tenant, "ann").version for tenant in map(str, range(20))}
    assert found == {"a", "b"}


def test_where_no_version_has_a_weight_the_last_one_answers() -> None:
    assert version_for(task(a=0, b=0), "", "").version == "b"


def test_what_became_of_an_answer_counts_once_and_for_its_own_tenant() -> None:
    outcomes = TaskOutcomes()
    outcomes.asked("team", "1", "do", "a")
    outcomes.asked("team", "2", "do", "b")
    outcomes.told("team", "1", "shown")
    outcomes.told("team", "1", "accepted")
    outcomes.told("team", "1", "accepted")
    outcomes.told("others", "2", "dismissed")
    outcomes.told("team", "3", "dismissed")
    assert outcomes.counts("team", "do", "a") == {"asked": 1, "shown": 1, "accepted": 1, "dismissed": 0}
    assert outcomes.counts("team", "do", "b") == {"asked": 1, "shown": 0, "accepted": 0, "dismissed": 0}
    assert outcomes.counts("team", "do", "c") == {"asked": 0, "shown": 0, "accepted": 0, "dismissed": 0}


def test_a_tenant_sees_its_own_answers_and_the_operator_all() -> None:
    outcomes = TaskOutcomes()
    for tenant in ("team", "others", "others"):
        outcomes.asked(tenant, "1", "do", "a")
    assert [outcomes.counts(tenant, "do", "a")["asked"] for tenant in ("team", "others")] == [1, 2]
    assert outcomes.all() == [("do", "a", {"asked": 3, "shown": 0, "accepted": 0, "dismissed": 0})]


def test_only_the_latest_answers_are_remembered() -> None:
    outcomes = TaskOutcomes()
    for number in range(5000):
        outcomes.asked("team", str(number), "do", "a")
    outcomes.told("team", "0", "shown")
    outcomes.told("team", "4999", "shown")
    assert outcomes.counts("team", "do", "a") == {"asked": 5000, "shown": 1, "accepted": 0, "dismissed": 0}
