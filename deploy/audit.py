"""Check the pinned packages for known vulnerabilities with pip-audit: `audit.py REQUIREMENTS…`.

Exit codes: 0 no known vulnerability, 1 at least one, 2 packages that could not be looked up.
"""

import json
import subprocess
import sys


def main(*requirements: str) -> int:
    files = [part for file in requirements for part in ("--requirement", file)]
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
    audit = subprocess.run([*command, "--format", "json", *files], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(audit.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = [line.strip() for line in audit.stderr.splitlines() if line.strip()]
        print(f"The database of vulnerabilities could not be read: {(lines or ['no reason given'])[-1]}")
        return 2
    found = [(package, entry) for package in packages for entry in package.get("vulns", ())]
    for package, entry in found:
        fixed = ", ".join(entry["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {entry['id']}, fixed in {fixed}")
    skipped = [package for package in packages if package.get("skip_reason")]
    reason = " ".join(skipped[0]["skip_reason"].split()) if skipped else "no packages were given"
    if len(skipped) == len(packages):
        print(f"None of the {len(packages)} packages could be looked up ({reason}).")
        return 2
    print(f"{len(packages) - len(skipped)} packages were looked up: {len(found)} known vulnerabilities.")
    if skipped:
        names = ", ".join(package["name"] for package in skipped)
        print(f"{len(skipped)} packages could not be looked up ({reason}): {names}.")
    return 1 if found else 2 if skipped else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
