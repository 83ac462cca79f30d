# SPDX-License-Identifier: Apache-2.0
"""Prints TAP for automake's driver when tests/pytest-tap.sh asks for it."""

import os


class Tap:
    """One line a test: a test's setup and teardown count only when they fail or skip."""

    def __init__(self, stream):
        self.stream = stream
        self.count = 0

    def line(self, ok, name, directive=""):
        self.count += 1
        name = name.replace("#", "\\#").replace("\n", " ")
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}{directive}", file=self.stream, flush=True)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            skip = ""
            if report.skipped:
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
                skip = " # SKIP " + reason.removeprefix("Skipped: ").replace("\n", " ")
            self.line(not report.failed, report.nodeid, skip)

    def pytest_collectreport(self, report):
        if report.failed:
            self.line(False, f"collecting {report.nodeid}")

    def pytest_sessionfinish(self):
        print(f"1..{self.count}", file=self.stream, flush=True)


def pytest_configure(config):
    if "CKV_TAP_FD" in os.environ:
        config.pluginmanager.register(Tap(os.fdopen(int(os.environ["CKV_TAP_FD"]), "w")), "ckv-tap")
