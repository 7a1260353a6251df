"""A result says where it was measured, and nothing private."""

from pathlib import Path

from halfline.bench.machine import command_line, cpu_name, describe


def test_the_processor_is_named_with_its_family_and_model(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n"
    )
    assert cpu_name(cpuinfo) == "AMD EPYC, family 25 model 1"


def test_a_processor_without_family_is_named_all_the_same(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Neoverse\n")
    assert cpu_name(cpuinfo) == "Neoverse"


def test_commands_are_kept_without_this_machines_folders() -> None:
    assert command_line(["/home/me/bin/halfline", "bench", "--llama-bin", "/opt/llama"]) == (
        "halfline bench --llama-bin llama"
    )


def test_a_description_has_the_facts_that_make_a_number_believable() -> None:
    assert {"date", "cpu", "num_cpus", "system", "python", "halfline", "command"} <= describe().keys()
