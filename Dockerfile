# Airflow with Kafka Ferry. For Astronomer's Runtime instead of Apache's image, take one without
# ONBUILD steps (its tag ends in -base) and its folder:
#   docker build --build-arg BASE_IMAGE=...:3.3-...-base --build-arg HOME_FOLDER=/usr/local/airflow .
ARG BASE_IMAGE=apache/airflow:3.3.2-python3.11
FROM ${BASE_IMAGE}
ARG HOME_FOLDER=/opt/airflow
WORKDIR ${HOME_FOLDER}

USER root
COPY packages.txt .
RUN apt-get update -qq \
    && xargs --arg-file=packages.txt apt-get install --yes --no-install-recommends \
    && rm -rf /var/lib/apt/lists/*
COPY --chown=50000:0 . .
# Where runs keep what can be made anew from the target (FERRY_HOME).
RUN install --directory --owner=50000 --group=0 --mode=0775 dist .ferry

# The user of both images: airflow, or astro.
USER 50000
RUN pip install --no-cache-dir --requirement requirements.txt --constraint requirements.lock \
    && pip wheel --no-cache-dir --no-deps --wheel-dir dist . \
    && pip install --no-cache-dir --no-deps dist/kafka_ferry-*.whl \
    # Spark sends a .whl to its executors, but only a .zip gets on their import path.
    && cp dist/kafka_ferry-*.whl dist/kafka_ferry.zip

# What is mounted over include/ in development comes before the installed wheel.
ENV PYTHONPATH=${HOME_FOLDER}/include \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    FERRY_HOME=${HOME_FOLDER}
