"""What Slurm says in a job's logs: endings, kills, launches that failed, and who exited first."""

from __future__ import annotations

from typing import Tuple

from slurmswift.domain.rule import Role, Rule

# Up to 24.11 slurmstepd signs its lines; from 25.05 they start with a time, taken off before.
_STEPD = r"^(?:slurmstepd\S{0,80}: )?error: "
_STARS = _STEPD + r"\*\*\* \S+ \S+ ON (?P<node>\S+) "
_SOURCE = "Slurm src/slurmd/slurmstepd/req.c"

SLURM_RULES: Tuple[Rule, ...] = (
    Rule(
        "slurm-time-limit",
        Role.ENDING,
        "sched-time-limit",
        ("DUE TO TIME LIMIT",),
        (_STARS + r"CANCELLED AT \S+ DUE TO TIME LIMIT",),
        _SOURCE,
        (
            (
                "slurmstepd: error: *** JOB 812 ON n01 CANCELLED AT 2026-01-05T10:00:00 DUE TO "
                "TIME "
                "LIMIT ***"
            ),
            (
                "[2026-01-05T10:00:01.123] error: *** STEP 812.0 ON n01 CANCELLED AT "
                "2026-01-05T10:00:00 DUE TO TIME LIMIT ***"
            ),
        ),
        ("prompt: 'slurmstepd: error: *** JOB 1 ON n CANCELLED AT x DUE TO TIME LIMIT ***'",),
    ),
    Rule(
        "slurm-preempted",
        Role.ENDING,
        "sched-preempted",
        ("DUE TO PREEMPTION",),
        (_STARS + r"CANCELLED AT \S+ DUE TO PREEMPTION",),
        _SOURCE,
        (
            (
                "slurmstepd: error: *** JOB 812 ON n01 CANCELLED AT 2026-01-05T10:00:00 DUE TO "
                "PREEMPTION ***"
            ),
        ),
        ("our jobs are often CANCELLED DUE TO PREEMPTION",),
    ),
    Rule(
        "slurm-node-failure",
        Role.ROOT,
        "hw-node-failure",
        ("Node failure on", "DUE TO NODE FAILURE"),
        (
            r"^(?:srun|salloc): error: Node failure on (?P<node>\S+)",
            # ON names the node that reports, not the one that failed.
            _STEPD + r"\*\*\* \S+ \S+ ON \S+ CANCELLED AT \S+ DUE TO NODE FAILURE",
        ),
        _SOURCE + ", src/api/step_launch.c",
        (
            "srun: error: Node failure on n07",
            (
                "slurmstepd: error: *** STEP 812.0 ON n01 CANCELLED AT 2026-01-05T10:00:00 DUE TO "
                "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
            ),
        ),
        ("Node failure on the graph: leaf 3",),
    ),
    Rule(
        "slurm-memory-error",
        Role.ROOT,
        "hw-node-failure",
        ("UNCORRECTABLE MEMORY ERROR",),
        (_STARS + r"UNCORRECTABLE MEMORY ERROR AT",),
        _SOURCE,
        (
            (
                "slurmstepd: error: *** STEP 9.0 ON n3 UNCORRECTABLE MEMORY ERROR AT "
                "2026-01-05T10:00:00 ***"
            ),
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered",),
    ),
    Rule(
        "slurm-requeued",
        Role.ENDING,
        "sched-cancelled",
        ("DUE TO JOB REQUEUE",),
        (_STARS + r"CANCELLED AT \S+ DUE TO JOB REQUEUE",),
        _SOURCE,
        (
            (
                "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-01-05T10:00:00 DUE TO JOB "
                "REQUEUE ***"
            ),
        ),
        ("DUE TO JOB REQUEUE",),
    ),
    Rule(
        "slurm-cancelled",
        Role.ENDING,
        "sched-cancelled",
        ("CANCELLED AT",),
        (_STARS + r"CANCELLED AT \S+(?: DUE to SIGNAL [^*]{1,40})? \*\*\*",),
        _SOURCE,
        (
            "slurmstepd: error: *** STEP 21.1 ON n6 CANCELLED AT 2026-01-05T10:00:00 ***",
            (
                "slurmstepd-n6: error: *** JOB 21 ON n6 CANCELLED AT 2026-01-05T10:00:00 DUE to "
                "SIGNAL "
                "Terminated ***"
            ),
        ),
        (
            (
                "slurmstepd: error: *** JOB 812 ON n01 CANCELLED AT 2026-01-05T10:00:00 DUE TO "
                "TIME "
                "LIMIT ***"
            ),
        ),
    ),
    Rule(
        "slurm-oom",
        Role.ROOT,
        "mem-host-oom",
        ("oom-kill event", "oom_kill event", "memory limit"),
        (
            r"^(?:slurmstepd(?:-(?P<node>[\w.-]+))?: )?error: Detected \d+ oom[-_]kill event",
            (
                r"^slurmstepd\S{0,80}: error: (?:Exceeded (?:step|job) memory limit|"
                r"(?:Step|Job) \S+ exceeded memory limit)"
            ),
        ),
        "Slurm src/plugins/task/cgroup/task_cgroup_memory.c, src/common/slurm_jobacct_gather.c",
        (
            (
                "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=9.0. Some of your "
                "processes may have been killed by the cgroup out-of-memory handler."
            ),
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=9.batch. Some of the step "
                "tasks have been OOM Killed."
            ),
            "[2026-02-24T23:34:12.229] error: Detected 1 oom_kill event in StepId=9.0.",
            "slurmstepd: error: Exceeded step memory limit at some point.",
        ),
        ("completion: 'slurmstepd: error: Detected 1 oom_kill event ...'",),
    ),
    Rule(
        "slurm-task-oom",
        Role.ROOT,
        "mem-host-oom",
        ("Out Of Memory",),
        (r"^srun: error: (?P<node>[\w.-]+): tasks? (?P<task>\d+)[\d,-]{0,200}: Out Of Memory",),
        "Slurm src/api/step_launch.c, src/srun task_state",
        ("srun: error: n12: tasks 1-3: Out Of Memory",),
        ("srun: error: n12: task 1: Exited with exit code 1",),
    ),
    Rule(
        "kernel-oom",
        Role.ROOT,
        "mem-host-oom",
        ("ut of memory: Kill",),
        (r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process (?P<pid>\d+)",),
        "Linux mm/oom_kill.c",
        (
            "[ 5208.1] Memory cgroup out of memory: Killed process 23301 (python) total-vm:1kB",
            "Out of memory: Kill process 4411 (python3) score 901 or sacrifice child",
        ),
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",),
    ),
    Rule(
        "slurm-task-launch-failed",
        Role.ROOT,
        "sched-launch-failure",
        (
            "Task launch for",
            "Application launch failed",
            "waiting for task launch",
            " launch failed: ",
        ),
        (
            r"^srun: error: Task launch for (?:StepId=)?\S+ failed on node (?P<node>[^\s:]+)",
            r"^srun: error: Application launch failed: ",
            r"^srun: error: (?:[Tt]imeout waiting|[Tt]imed out waiting) for task launch",
            r"^srun: error: task (?P<task>\d+) launch failed: ",
        ),
        "Slurm src/api/step_launch.c; real reports of 18.08 to 23.02",
        (
            (
                "srun: error: Task launch for StepId=20.0 failed on node gpu-33: Socket timed "
                "out on "
                "send/recv operation"
            ),
            "srun: error: Task launch for 5.0 failed on node n2: Communication connection failure",
            "srun: error: Application launch failed: Communication connection failure",
        ),
        ("Task launch for the demo failed on node 3",),
    ),
    Rule(
        "slurm-step-impossible",
        Role.ROOT,
        "sched-launch-failure",
        ("Unable to create step", "Unable to confirm allocation"),
        (
            (
                r"^srun: error: Unable to create step for job \d+: (?:More processors|Requested "
                r"node "
                r"configuration|Memory required|Invalid|Requested nodes are|Required node)"
            ),
        ),
        "Slurm src/srun/allocate.c, src/common/slurm_errno.c",
        (
            (
                "srun: error: Unable to create step for job 238: More processors requested than "
                "permitted"
            ),
        ),
        (
            (
                "srun: error: Unable to create step for job 238: Job/step already completing or "
                "completed"
            ),
        ),
        advice="no",
        remedy="The step asks for more than the job has: compare srun's options and SLURM_* with "
        "the #SBATCH lines. Another start fails the same way",
    ),
    Rule(
        "slurm-step-refused",
        Role.ROOT,
        "sched-launch-failure",
        (
            "Unable to create step",
            "Unable to confirm allocation",
            "rolog failed",
            "launch failed",
            "launch_failed",
            "container start failed",
            "failed to import docker image",
            "couldn't chdir",
            "Could not open std",
        ),
        (
            (
                r"^srun: error: Unable to (?:create step|confirm allocation) for job \d+: "
                r"(?!Job/step already)"
            ),
            r"[Jj]ob prolog failed|[Tt]ask prolog failed|[Pp]rolog failed (?:on|status)",
            r"launch[ _]failed[ _]requeued[ _]held",
            r"pyxis: (?:container start failed|failed to import docker image)",
            r"^slurmstepd\S{0,80}: error: Could not open std(?:out|err|in) file",
        ),
        "Slurm src/srun/allocate.c, src/slurmd/slurmd/req.c",
        (
            "srun: error: Unable to create step for job 7: Communication connection failure",
            "slurmstepd: error: Job prolog failed, aborting",
            "JobState=PENDING Reason=launch_failed_requeued_held",
        ),
        (
            (
                "srun: error: Unable to create step for job 238: Job/step already completing or "
                "completed"
            ),
        ),
    ),
    Rule(
        "slurm-task-exit",
        Role.CONFIRMATION,
        "",
        ("srun: error: ",),
        (
            (
                r"^srun: error: (?P<node>[\w.-]+): tasks? (?P<task>\d+)[\d,-]{0,200}: "
                r"(?:Exited with exit code (?P<status>\d+)|(?P<signal>Killed|Aborted|Segmentation "
                r"fault|"
                r"Bus error|Floating point exception|Illegal instruction|Terminated|User defined "
                r"signal \d)"
                r"(?: \(core dumped\))?)"
            ),
        ),
        "Slurm src/srun/libsrun/task_state.c; one line per node and kind of exit",
        (
            "srun: error: n3: task 1: Exited with exit code 2",
            "srun: error: n3: tasks 0-1: Terminated",
            "srun: error: n3: task 7: Segmentation fault (core dumped)",
        ),
        ("srun: error: n3: task 1: Out Of Memory",),
    ),
    Rule(
        "slurm-step-failed",
        Role.CONFIRMATION,
        "",
        ("FAILED (non-zero exit code",),
        (_STARS + r"FAILED \(non-zero exit code or other failure mode\)",),
        _SOURCE,
        (
            (
                "slurmstepd: error: *** STEP 7.0 ON n1 FAILED (non-zero exit code or other failure "
                "mode) ***"
            ),
        ),
        ("train.py FAILED",),
    ),
    Rule(
        "slurm-winding-down",
        Role.BOILERPLATE,
        "",
        (
            "srun: ",
            "slurmstepd: error: Failed to send",
            "slurmstepd: error: Failed to destroy",
            "JOB NOT ENDING WITH SIGNALS",
        ),
        (
            (
                r"^srun: (?:launch/slurm: _?\w+: )?(?:Terminating |Job step aborted|forcing job "
                r"termination|"
                r"got SIG|error: Timed out waiting for job step)"
            ),
            r"^slurmstepd: error: Failed to (?:send MESSAGE_TASK_EXIT|destroy CXI)",
            r"STEPD TERMINATED ON \S+ AT \S+ DUE TO JOB NOT ENDING WITH SIGNALS",
        ),
        "Slurm src/srun, src/plugins/launch",
        (
            "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
            "slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused",
        ),
        ("srun: error: Node failure on n07",),
    ),
)
