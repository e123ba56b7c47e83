#!/usr/bin/env bash
# Runs the README's two commands on a bare Debian, then any others, and prints exit code and seconds of each.
#
#   .ci/fresh-root.sh RELEASE ROOT [COMMAND...]
#
#   RELEASE  bookworm, trixie, ...
#   ROOT     folder of the root file system; made with debootstrap when it is not there yet
#   COMMAND  run after the README's two, in the clone, with bash
#
# The root holds debootstrap's minbase, python3, python3-venv and ca-certificates, and a clone of what this checkout has committed: nothing
# else. Debian's mirror is debootstrap's own; pip's configuration, the certificates and the proxy settings of this machine go along, so
# that the root reaches the same package index. Mounts and processes live in namespaces of their own and end with the script. Needs root,
# debootstrap, git and unshare. The output of command N is also in ROOT/tmp/command-N.log. The exit code is the worst of all.
set -euo pipefail
if [[ $# -lt 2 ]]; then
    echo "usage: .ci/fresh-root.sh RELEASE ROOT [COMMAND...]" >&2
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
    rm -rf "$root/root/dexstack" "$root/root/.cache/dexstack" "$root/root/.cache/dexengines"
    git clone -q . "$root/root/dexstack"
    exec env INSIDE_NAMESPACE=1 unshare --mount --pid --fork --kill-child ".ci/$(basename "$0")" "$release" "$root" "${@:3}"
fi

mount --bind "$root" "$root"  # a mount point, so that programs in the root can change how mounts propagate
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
passed=$(env | grep -E '^(PIP_|SSL_CERT_FILE=|REQUESTS_CA_BUNDLE=|https?_proxy=|no_proxy=|ROS_DOMAIN_ID=|CI=)' || true)
mapfile -t variables <<<"$passed"
mapfile -t commands < <(.ci/readme-commands)
commands+=("${@:3}")
worst=0
for number in "${!commands[@]}"; do
    command=${commands[number]} log=$root/tmp/command-$((number + 1)).log
    echo "$release: $command"
    start=$SECONDS code=0
    chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 "${variables[@]}" \
        bash -c "cd /root/dexstack && { $command; }; exit \$?" </dev/null 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
    echo "$release: exit code $code after $((SECONDS - start)) s: $(tail -n 1 "$log")"
    ((code <= worst)) || worst=$code
done
exit "$worst"
