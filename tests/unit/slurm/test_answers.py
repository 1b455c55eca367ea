"""Text that a real Slurm 22.05 printed, read back into values."""

from __future__ import annotations

from slurmswift.domain.job import ExitCode, JobState
from slurmswift.slurm import answers, commands

D = commands.DELIMITER

QUEUE = (
    f"1{D}FAILED{D}0{D}n1{D}j.sh{D}NonZeroExitCode{D}\n"
    f"2{D}PENDING{D}1{D}{D}a|b c{D}job requeued in held state{D}\n"
)
ACCOUNTS = (
    f"1{D}REQUEUED{D}3:0{D}2026-12-01T02:47:05{D}2026-12-01T02:47:08{D}2026-12-01T02:47:11{D}n1{D}j.sh\n"
    f"1.batch{D}FAILED{D}3:0{D}2026-12-01T02:47:08{D}2026-12-01T02:47:08{D}2026-12-01T02:47:08{D}n1{D}batch\n"
    f"1{D}CANCELLED by 1000{D}0:15{D}2026-12-01T02:47:11{D}2026-12-01T02:47:16{D}Unknown"
    f"{D}n[2-3]{D}a{D}b\n"
)


def test_queue_rows_with_any_name_and_reason() -> None:
    first, second = answers.parse_queue(QUEUE)

    assert (first.job_id, first.state, first.nodes) == ("1", JobState.FAILED, "n1")
    assert (second.name, second.restart_count) == ("a|b c", 1)
    assert second.reason == "job requeued in held state"


def test_banners_between_the_rows_are_passed_over() -> None:
    assert answers.parse_queue("Welcome to the cluster!\n" + QUEUE) == answers.parse_queue(QUEUE)


def test_account_rows_with_their_steps() -> None:
    job, step, again = answers.parse_accounts(ACCOUNTS)

    assert (job.state, job.exit_code, job.step) == (JobState.REQUEUED, ExitCode(3, 0), "")
    assert (step.job_id, step.step) == ("1", "batch")
    assert (again.state, again.cancelled_by, again.end) == (JobState.CANCELLED, 1000, "Unknown")
    assert again.name == f"a{D}b"


def test_the_job_id_among_what_a_site_adds() -> None:
    assert answers.parse_submitted("7\n") == "7"
    assert answers.parse_submitted("7;mini\n") == "7"
    assert answers.parse_submitted("Lua: 3 jobs left\n12\nthank you\n") == "12"
    assert answers.parse_submitted("sbatch: error\n") is None


def test_what_scontrol_says_of_its_configuration() -> None:
    said = "ClusterName             = mini\nKillWait                = 30 sec\n"

    assert answers.parse_cluster_name(said) == "mini"
    assert answers.parse_config_seconds(said, "KillWait") == 30
    assert answers.parse_cluster_name("") is None


def test_the_nodes_in_use_of_a_partition_or_of_the_default_one() -> None:
    said = (
        f"n1{D}gpu*{D}idle{D}\nn2{D}gpu*{D}mixed{D}\nn3{D}gpu*{D}down*{D}\n"
        f"n4{D}gpu*{D}drained{D}\nn5{D}gpu*{D}idle*{D}\nn1{D}debug{D}idle{D}\n"
    )

    assert answers.parse_usable_nodes(said, ()) == {"n1", "n2"}
    assert answers.parse_usable_nodes(said, ("gpu",)) == {"n1", "n2"}
    assert answers.parse_usable_nodes(said, ("debug",)) == {"n1"}


def test_one_field_of_a_job() -> None:
    said = "JobId=5 JobName=x ExcNodeList=n[1-2] NodeList=(null)"

    assert answers.parse_job_field(said, "ExcNodeList") == "n[1-2]"
    assert answers.parse_job_field(said, "Absent") is None


def test_slurms_times_are_written_in_utc() -> None:
    assert commands.slurm_time(0.0) == "1970-01-01T00:00:00"
    assert commands.slurm_time(-5.0) == "1970-01-01T00:00:00"


# scontrol show job --oneliner of 22.05, cut to its end: paths hold blanks, and no quotes mark them.
JOB = (
    "JobId=1 JobName=a.sh JobState=FAILED Reason=JobLaunchFailure ExitCode=0:53 Network=(null)"
    " Command=/shared/my job/a.sh WorkDir=/shared/my job"
    " StdErr=/shared/my job/log 1.txt StdIn=/dev/null"
    " StdOut=/shared/my job/log 1.txt Power= \n"
)


def test_a_jobs_log_path_keeps_its_blanks() -> None:
    assert answers.parse_job_path(JOB, "StdOut") == "/shared/my job/log 1.txt"
    assert answers.parse_job_path(JOB, "StdErr") == "/shared/my job/log 1.txt"
    assert answers.parse_job_path(JOB, "WorkDir") == "/shared/my job"
    assert answers.parse_job_path(JOB, "Network") == ""
