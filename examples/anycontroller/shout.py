#!/usr/bin/env python3
"""Keeps a ConfigMap with the text in upper case for each Greeting. Needs the package kubernetes."""
import logging, os, queue, threading, time
from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

GROUP, VERSION, PLURAL = KIND = ("example.bellwether.dev", "v1", "greetings")
RESYNC = int(os.environ.get("RESYNC", 300))  # seconds, after which everything is listed again
cache, todo = {}, queue.Queue()  # Greetings by namespace and name; those to reconcile


def reconcile(namespace, name):
    greeting = cache.get((namespace, name))
    if not greeting or "deletionTimestamp" in greeting["metadata"]:
        return  # the garbage collector deletes the ConfigMap
    wanted = {"text": greeting["spec"]["text"].upper()}
    owner = {key: greeting[key] for key in ("apiVersion", "kind")} | {key: greeting["metadata"][key] for key in ("name", "uid")}
    metadata = {"name": "shout-" + name, "ownerReferences": [owner | {"controller": True}]}
    try:
        child = core.read_namespaced_config_map(metadata["name"], namespace)
        if child.data != wanted:
            child.data = wanted
            core.replace_namespaced_config_map(child.metadata.name, namespace, child)
    except client.ApiException as e:
        if e.status != 404:
            raise
        core.create_namespaced_config_map(namespace, {"metadata": metadata, "data": wanted})
    if greeting.get("status", {}).get("shout") != wanted["text"]:
        done = greeting | {"status": {"shout": wanted["text"]}}
        custom.replace_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, done)


def work():
    while True:
        key = todo.get()
        try:
            reconcile(*key)
        except (client.ApiException, HTTPError) as e:  # a conflict, too many requests, a server that is away
            logging.warning("%s/%s, again in a second: %s", *key, getattr(e, "status", e))
            threading.Timer(1, todo.put, [key]).start()


def see(event, greeting):
    key = greeting["metadata"]["namespace"], greeting["metadata"]["name"]
    if event == "DELETED":
        cache.pop(key, None)
    else:
        cache[key] = greeting
        todo.put(key)


logging.basicConfig(level=logging.INFO)
config.load_config()
core, custom = client.CoreV1Api(), client.CustomObjectsApi()
threading.Thread(target=work, daemon=True).start()
while True:
    try:
        listed = custom.list_cluster_custom_object(*KIND)
        cache.clear()
        for item in listed["items"]:
            see("ADDED", item)
        version = listed["metadata"]["resourceVersion"]
        for each in watch.Watch().stream(custom.list_cluster_custom_object, *KIND, resource_version=version, timeout_seconds=RESYNC):
            see(each["type"], each["object"])
    except (client.ApiException, HTTPError) as e:
        logging.warning("list and watch again: %s", e)
        time.sleep(1)
