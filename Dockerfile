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
RUN install --directory --owner=50000 --group=0 --mode=0775 .ferry

# The Airflow of the image stays as it is. What it has not, comes as it was tested, by its hash.
COPY requirements.txt requirements.lock /tmp/packages/
COPY deploy/image/install.py /tmp/
RUN python /tmp/install.py /tmp/packages && rm -r /tmp/packages

# The code is root's: no task can change it. Airflow writes its own files beside it.
COPY . .
RUN python /tmp/install.py . && rm /tmp/install.py \
    && python -m compileall -qq dags include plugins \
    && chown --no-dereference 0:0 . dags include plugins \
    && chmod 1775 . && chmod 755 dags include plugins

# The user of both images: airflow, or astro.
USER 50000

# What is mounted over include/ in development comes before the installed wheel.
ENV PYTHONPATH=${AIRFLOW_HOME}/include \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    FERRY_HOME=${AIRFLOW_HOME}
