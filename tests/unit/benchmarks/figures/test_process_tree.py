import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures.process_tree import Process, ProcessTree, Usage

MIB = 1 << 20
BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
ORPHAN = "import os\nif os.fork(): os._exit(0)\nos.setsid()\n"


def python(program: str) -> None:
    subprocess.run([sys.executable, "-S", "-c", program], check=True)


def test_the_time_of_a_grandchild_counts_whose_parent_has_gone(tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    waiting = f"import time\nwhile not os.path.exists({str(begin)!r}): time.sleep(0.01)\n"
    with ProcessTree() as tree:
        python(ORPHAN + waiting + BURN)
        # The block has not waited for it: it begins only now.
        begin.touch()
    assert 0.3 <= tree.usage.cpu_s < 3
    assert tree.usage.outlived == ()


def test_the_time_of_a_process_counts_that_no_process_waits_for() -> None:
    """As of Spark's Python workers."""
    ignoring = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    # A parent that ignores its children waits until there are none.
    waiting = "try: os.wait()\n    except ChildProcessError: os._exit(0)\n"
    forking = f"if os.fork():\n    {waiting}"
    with ProcessTree(interval=0.02) as tree:
        python(ignoring + forking + BURN.replace("0.3", "1.5"))
    # What came after the last sample is lost.
    assert 0.5 <= tree.usage.cpu_s < 3


def test_a_process_counts_that_no_sample_saw() -> None:
    with ProcessTree(interval=60) as tree:
        # The first sample is taken at the start.
        time.sleep(0.1)
        python(BURN)
    assert tree.usage.processes == ()
    assert tree.usage.cpu_s >= 0.3


def test_what_ran_before_does_not_count() -> None:
    before = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        with ProcessTree() as tree:
            time.sleep(0.15)
        assert before.poll() is None
        assert tree.usage == Usage(tree.usage.cpu_s, 0, (), (), tree.usage.sampling_s)
        assert tree.usage.cpu_s < 0.01
    finally:
        before.kill()
        before.wait()


def test_what_does_not_end_is_killed_and_named() -> None:
    with ProcessTree(grace=0.1) as tree:
        python(ORPHAN + "import time; time.sleep(60)")
    (name,) = tree.usage.outlived
    assert name.startswith("python")


def test_memory_is_known_of_each_process_and_of_all_at_one_moment() -> None:
    hold = "import subprocess, sys, time; held = b'x' * (50 << 20)\n"
    child = f"subprocess.run([sys.executable, '-S', '-c', {hold + 'time.sleep(0.5)'!r}])"
    with ProcessTree(interval=0.02) as tree:
        python(hold + child)
    usage = tree.usage
    assert sorted(process.kind for process in usage.processes) == ["driver", "worker"]
    assert all(50 * MIB < process.peak_rss < 90 * MIB for process in usage.processes)
    assert 100 * MIB < usage.peak_pss < usage.sum_of_peaks < 180 * MIB


def test_peaks_are_added_up_and_the_largest_of_a_kind_is_found() -> None:
    workers = [Process("python", "worker", size) for size in (3, 5, 4)]
    usage = Usage(1.0, 9, (Process("ferry", "driver", 7), *workers), (), 0.0)
    assert usage.sum_of_peaks == 19
    assert (usage.largest("driver"), usage.largest("worker"), usage.largest("JVM")) == (7, 5, 0)
