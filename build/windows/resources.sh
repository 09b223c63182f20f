#!/usr/bin/env bash
# resources.sh VERSION writes rsrc_windows_amd64.syso at the root, where go
# build finds it and adds its icon, manifest and version to Godwit.exe. `wails
# build` makes the same file from the same sources.
set -euo pipefail
cd "$(dirname "$0")/../.."

number=$(grep -oE '^[0-9]+\.[0-9]+\.[0-9]+' <<<"$1" || echo 0.0.0)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp build/windows/icon.ico "$work"
sed "s/{{.Info.ProductVersion}}/$number/" build/windows/wails.exe.manifest >"$work/exe.manifest"
python3 - "$number" >"$work/winres.json" <<'PYTHON'
import json
import sys

info = json.load(open("wails.json"))["info"]
words = {
    "CompanyName": info["companyName"], "ProductName": info["productName"], "FileDescription": info["productName"],
    "LegalCopyright": info["copyright"], "Comments": info["comments"], "ProductVersion": sys.argv[1],
}
# Wails looks for the window's icon under the number 3.
print(json.dumps({
    "RT_GROUP_ICON": {"#3": {"0000": "icon.ico"}},
    "RT_MANIFEST": {"#1": {"0409": "exe.manifest"}},
    "RT_VERSION": {"#1": {"0000": {"fixed": {"file_version": sys.argv[1], "product_version": sys.argv[1]}, "info": {"0409": words}}}},
}))
PYTHON
go run github.com/tc-hib/go-winres@v0.3.3 make --arch amd64 --in "$work/winres.json" --out rsrc
