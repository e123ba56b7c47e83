#!/usr/bin/env bash
# Runs the README's two commands on a bare Debian, and prints exit code and seconds of each.
#
#   .ci/fresh-root.sh RELEASE ROOT
#
#   RELEASE  bookworm, trixie, ...
#   ROOT     folder of the root file system; made with debootstrap when it is not there yet
#
# The root holds debootstrap's minbase, python3, python3-venv and ca-certificates, and a clone of what this checkout has committed: nothing
# else. Debian's mirror is debootstrap's own; pip's configuration, the certificates and the proxy settings of this machine go along, so
# that the root reaches the same package index. Mounts and processes live in namespaces of their own and end with the script. Needs root,
# debootstrap, git and unshare. The whole output of command N is ROOT/tmp/command-N.log. The exit code is the worst of the two.
set -euo pipefail
if [[ $# != 2 ]]; then
    echo "usage: .ci/fresh-root.sh RELEASE ROOT" >&2
    exit 2
fi
release=$1 root=$(realpath -m "$2")
cd "$(dirname "$0")/.."

if [[ ${INSIDE_NAMESPACE:-} != 1 ]]; then
    [[ -d $root/usr ]] || debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$release" "$root" >/dev/null
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt "$HOME/.config/pip/pip.conf"; do
        target=$root${file/#$HOME/\/root}
        if [[ -e $file ]]; then
            mkdir -p "$(dirname "$target")"
            cp "$file" "$target"
        fi
    done
    rm -rf "$root/root/dexstack" "$root/root/.cache/dexstack"
    git clone -q . "$root/root/dexstack"
    exec env INSIDE_NAMESPACE=1 unshare --mount --pid --fork --kill-child "$0" "$release" "$root"
fi

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
passed=$(env | grep -E '^(PIP_|SSL_CERT_FILE=|REQUESTS_CA_BUNDLE=|https?_proxy=|no_proxy=|ROS_DOMAIN_ID=)' || true)
mapfile -t variables <<<"$passed"
mapfile -t commands < <(awk '/^```bash/{f=1;next}/^```/{f=0}f' README.md | grep -F 'venv .venv' | head -2)
worst=0
for number in 1 2; do
    command=${commands[number - 1]}
    echo "$release: $command"
    start=$SECONDS code=0
    chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 "${variables[@]}" \
        bash -c "cd /root/dexstack && $command; exit \$?" >"$root/tmp/command-$number.log" 2>&1 </dev/null || code=$?
    echo "$release: exit code $code after $((SECONDS - start)) s: $(tail -n 1 "$root/tmp/command-$number.log")"
    ((code <= worst)) || worst=$code
done
exit "$worst"
