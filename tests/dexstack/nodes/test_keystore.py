"""``hardware/network/make-keystore``: valid certificates and signatures that rcl finds."""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from dexstack.config import share_dir

SCRIPT = share_dir() / "hardware" / "network" / "make-keystore"
pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None or not SCRIPT.is_file(), reason="needs openssl and a checkout"
)
NODE = "import rclpy; rclpy.init(); rclpy.create_node('one'); print('made')"


def make(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def openssl(*arguments: object) -> str:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def keystore(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "store"
    done = make(folder, 7)
    assert done.returncode == 0, done.stderr
    assert "ROS_SECURITY_STRATEGY=Enforce" in done.stdout and "ROS_DOMAIN_ID=7" in done.stdout
    return folder


def test_certificate_and_signatures_are_valid(keystore):
    authority, home = keystore / "public" / "ca.cert.pem", keystore / "enclaves" / "dexstack"
    assert "OK" in openssl("verify", "-CAfile", authority, home / "cert.pem")
    assert "/dexstack" in openssl("x509", "-in", home / "cert.pem", "-noout", "-subject")
    assert openssl("pkey", "-in", home / "key.pem", "-pubout") == openssl(
        "x509", "-in", home / "cert.pem", "-noout", "-pubkey"
    )
    permissions = openssl("smime", "-verify", "-text", "-in", home / "permissions.p7s", "-CAfile", authority)
    assert "<subject_name>CN=/dexstack</subject_name>" in permissions and "<id>7</id>" in permissions
    assert "<default>DENY</default>" in permissions
    for access in ("publish", "subscribe"):
        allowed = re.findall(rf"<{access}><topics><topic>(.*?)</topic>", permissions)
        for topic in ("rt/joint_command", "rt/vendor/joint_states", "rq/hand/enableRequest"):
            assert any(fnmatch(topic, pattern) for pattern in allowed), f"{access} {topic}"
    governance = openssl("smime", "-verify", "-text", "-in", home / "governance.p7s", "-CAfile", authority)
    assert (
        "<allow_unauthenticated_participants>false" in governance
        and "<data_protection_kind>ENCRYPT" in governance
    )
    for link in ("identity_ca.cert.pem", "permissions_ca.cert.pem"):
        assert (home / link).read_text() == authority.read_text()


def test_keys_are_private_and_never_overwritten(keystore):
    for key in (keystore / "private" / "ca.key.pem", keystore / "enclaves" / "dexstack" / "key.pem"):
        assert key.stat().st_mode & 0o077 == 0
    before = (keystore / "private" / "ca.key.pem").read_bytes()
    again = make(keystore, 7)
    assert again.returncode == 2 and "never overwritten" in again.stderr
    assert (keystore / "private" / "ca.key.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("seven",), "whole number"), ((7, "hand"), "a name like /dexstack"), ((7, "/"), "a name like")],
)
def test_wrong_arguments_are_one_sentence(tmp_path, arguments, message):
    done = make(tmp_path / "store", *arguments)
    assert done.returncode == 2 and message in done.stderr and not (tmp_path / "store").exists()


def test_rcl_requires_the_keys(keystore, tmp_path):
    """The wheels' Fast DDS has no security and must refuse to start rather than run unprotected."""

    def start(store: Path) -> subprocess.CompletedProcess[str]:
        security = {
            "KEYSTORE": str(store),
            "ENABLE": "true",
            "STRATEGY": "Enforce",
            "ENCLAVE_OVERRIDE": "/dexstack",
        }
        environment = (
            os.environ | {f"ROS_SECURITY_{k}": v for k, v in security.items()} | {"ROS_DOMAIN_ID": "7"}
        )
        return subprocess.run([sys.executable, "-c", NODE], env=environment, capture_output=True, text=True)

    without = start(tmp_path)
    assert without.returncode != 0 and "does not exist" in without.stderr
    found = start(keystore)
    assert "made" in found.stdout or "doesn't have the security libraries" in found.stderr
