"""Looks the pinned packages up among known holes, with pip-audit: `audit.py REQUIREMENTS…`.

Exit codes: 0 nothing is known of any, 1 something is, 2 something could not be looked up.
"""

import json
import subprocess
import sys


def main(*requirements: str) -> int:
    named = [part for file in requirements for part in ("--requirement", file)]
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
    asked = subprocess.run([*command, "--format", "json", *named], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(asked.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = [line.strip() for line in asked.stderr.splitlines() if line.strip()]
        print(f"The source of known holes could not be asked, so nothing is said: {(lines or ['no reason given'])[-1]}")
        return 2
    holes = [(one, hole) for one in packages for hole in one.get("vulns", ())]
    for one, hole in holes:
        print(f"{one['name']} {one['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'nothing'}")
    left = [one for one in packages if one.get("skip_reason")]
    if len(left) == len(packages):
        reason = " ".join(left[0]["skip_reason"].split()) if left else "it was asked for none"
        print(
            "The source of known holes could not be reached, or knows none of these packages, so nothing is said of "
            f"any of the {len(left)} ({reason})."
        )
        return 2
    print(f"{len(packages) - len(left)} packages were looked up: {len(holes)} known holes.")
    if left:
        names, reason = ", ".join(one["name"] for one in left), " ".join(left[0]["skip_reason"].split())
        print(f"{len(left)} could not be looked up, so nothing is said of them ({reason}): {names}.")
    return 1 if holes else 2 if left else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
