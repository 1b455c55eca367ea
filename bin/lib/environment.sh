# shellcheck shell=bash
# The Python environment of a checkout, .venv: made, or completed, where it lacks something.
# Sourced, with ROOT set to the checkout.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() {
    say "$@"
    exit 1
}

LEAST_PYTHON='import sys; sys.exit(sys.version_info < (3, 10))'

find_python() {
    local candidate
    for candidate in python3 python3.{14,13,12,11,10}; do
        if "$candidate" -c "$LEAST_PYTHON" >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

install_debian() { # PACKAGE...: True where Debian's packages could be installed
    ((EUID == 0)) && command -v apt-get >/dev/null || return 1
    local -x DEBIAN_FRONTEND=noninteractive
    local -a install=(apt-get install -qq --yes --no-install-recommends "$@")
    local words
    say "installing Debian packages: $*"
    # A fresh machine has no lists of packages, or old ones.
    words=$({ "${install[@]}" || { apt-get update -qq && "${install[@]}"; }; } 2>&1 </dev/null) || {
        say "apt-get could not: $(tail -n 2 <<<"$words")"
        return 1
    }
}

make_venv() {
    local python
    if ! python=$(find_python); then
        install_debian python3 python3-venv || fail "there is no Python 3.10 or newer here; install one"
        python=$(find_python) || fail "Debian's python3 is older than 3.10; install a newer one"
    fi
    # Debian ships venv without the pip that it puts in: that is in python3-venv.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_debian python3-venv ||
        fail "$python cannot make environments; install the package python3-venv (Debian, Ubuntu)"
    say "making .venv"
    "$python" -m venv "$ROOT/.venv"
}

# need_environment run|dev: .venv with slurmswift and the example's PyTorch; `dev` brings the
# tools that check and test too, and what makes checkpoints for them. What is there already is not
# asked for again.
need_environment() {
    local kind=$1 stamps=$ROOT/.venv/slurmswift wanted
    local pytorch=examples/torchrun-cpu/requirements.txt for_tests=tests/support/requirements.txt
    local -a packages=(--editable . --requirement "$pytorch")
    [[ $kind == run ]] || packages=(--editable ".[dev]" --requirement "$pytorch" --requirement "$for_tests")
    wanted=$(cd "$ROOT" && cat pyproject.toml "$pytorch" "$for_tests" | sha256sum)
    # A pip that runs by itself: an environment that was moved or half made has none.
    "$ROOT/.venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
    if [[ $(cat "$stamps-$kind.stamp" 2>/dev/null) != "$wanted" ]]; then
        say "installing slurmswift and the example's PyTorch into .venv"
        (cd "$ROOT" && .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check \
            "${packages[@]}" </dev/null >&2) ||
            fail "pip could not install what is needed; its words are above"
        printf '%s\n' "$wanted" >"$stamps-$kind.stamp"
        # `dev` is all of `run`, and more.
        [[ $kind == run ]] || cp "$stamps-dev.stamp" "$stamps-run.stamp"
    fi
    export VIRTUAL_ENV=$ROOT/.venv PATH=$ROOT/.venv/bin:$PATH
    # Each command is a process of its own: compiled anew every time, it would take twice as long.
    unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
}
