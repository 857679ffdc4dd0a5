# An image with the command lathe and the Python package, for CPUs:
#   docker build -t lathe . && docker run --rm -v "$PWD:/work" lathe optimize model.onnx --calibrate photos/
# scripts/run-dockerfile.py runs these steps where there is no daemon.
FROM debian:12 AS build
COPY . /lathe
WORKDIR /lathe
ENV LATHE_CUDA=OFF
RUN --mount=type=cache,target=/root/.cache bash scripts/release.sh --no-check --no-deb

FROM debian:12-slim
RUN apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY --from=build /lathe/dist/lathe-*.whl /tmp/
RUN python3 -m venv /opt/lathe && /opt/lathe/bin/pip install -q --no-cache-dir --disable-pip-version-check /tmp/lathe-*.whl && rm /tmp/lathe-*.whl
RUN useradd --create-home lathe && install -d -o lathe /work
ENV PATH=/opt/lathe/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER lathe
WORKDIR /work
ENTRYPOINT ["lathe"]
CMD ["--help"]
