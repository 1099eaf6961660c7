# Airflow with Kafka Ferry, on Apache's image, or on the Runtime of an Astronomer project:
#   docker build --build-arg BASE_IMAGE={registry}/runtime:3.3-{n}-python-3.11-base .
# A Runtime's tag must end in -base: one without that ending copies and installs before this file
# says anything. The Python must be that of Spark's executors.
ARG BASE_IMAGE=apache/airflow:3.3.2-python3.11
FROM ${BASE_IMAGE}

# Both images say where their Airflow is at home; dags/, include/ and plugins/ belong there.
WORKDIR ${AIRFLOW_HOME}

USER 0
COPY packages.txt .
RUN apt-get update -qq \
    && xargs --arg-file=packages.txt apt-get install --yes --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*
# FERRY_HOME/.ferry is where runs keep what can be recreated from the target: mount a volume there.
RUN install --directory --owner=50000 --group=0 --mode=0775 dist .ferry

# The user of both images: airflow, or astro.
USER 50000
COPY --chown=50000:0 requirements.txt requirements.lock ./
# The Airflow of the image stays as it is. What it has not, comes as it was tested. Versions alone
# bind it: with hashes among them, pip would want a hash of what the image already has too.
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN grep -v '^apache-airflow==' requirements.txt > /tmp/requirements.txt \
    && sed -nE '/^apache-airflow(-core|-task-sdk)?==/d; s/^([^ ]+==[^\\]*[^\\ ]).*/\1/p' requirements.lock \
        > /tmp/constraints.txt \
    && pip install --no-cache-dir --requirement /tmp/requirements.txt --constraint /tmp/constraints.txt \
    && rm /tmp/requirements.txt /tmp/constraints.txt

COPY --chown=50000:0 . .
# Spark sends a .whl to its executors, but only a .zip gets on their import path.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir dist . \
    && pip install --no-cache-dir --no-deps dist/kafka_ferry-*.whl \
    && python -m kafka_ferry.spark.bytecode \
    && python -m kafka_ferry.spark.class_archive \
    && cp dist/kafka_ferry-*.whl dist/kafka_ferry.zip \
    && python -m kafka_ferry.spark.bytecode dist/kafka_ferry.zip \
    && python -m compileall -qq dags include plugins

# What is mounted over include/ in development comes before the installed wheel.
ENV PYTHONPATH=${AIRFLOW_HOME}/include \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    FERRY_HOME=${AIRFLOW_HOME}
