# syntax=docker/dockerfile:1
# One image for every component: `butler controller`, `butler provider <name>` and so on.

# The version of rust-toolchain.toml.
ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-bookworm AS build
# What the image has is enough: the lints that rust-toolchain.toml asks for are not needed here.
ARG RUST_VERSION
ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}
WORKDIR /src
COPY . .
# The caches stay with the engine, so the binary is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package butler --bin butler \
    && cp target/release/butler /butler

# The C library, certificate authorities and a user without rights; no shell.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /butler /usr/local/bin/butler
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/butler"]
