"""Scheduling of a process."""

import os
import subprocess
import sys


def test_every_thread_gets_the_niceness():
    code = """
import os, threading, time
from dexstack.process.realtime import set_niceness
threading.Thread(target=time.sleep, args=(1,)).start()
set_niceness(7)
print(sorted({os.getpriority(os.PRIO_PROCESS, int(t)) for t in os.listdir("/proc/self/task")}))
set_niceness(-20 if os.geteuid() else 7)  # refused without a word
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "[7]\n", done.stderr
