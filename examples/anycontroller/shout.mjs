#!/usr/bin/env node
// Keeps a ConfigMap with the text in upper case for each Greeting. Needs the package @kubernetes/client-node.
import * as k8s from '@kubernetes/client-node';

const kind = { group: 'example.bellwether.dev', version: 'v1', plural: 'greetings' };
const resync = Number(process.env.RESYNC ?? 300); // seconds, after which each Greeting is looked at again
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const greetings = k8s.makeInformer(config, `/apis/${kind.group}/${kind.version}/${kind.plural}`,
	() => custom.listClusterCustomObject(kind));
const children = k8s.makeInformer(config, '/api/v1/configmaps', () => core.listConfigMapForAllNamespaces());

async function reconcile(namespace, name) {
	const greeting = greetings.get(name, namespace);
	if (!greeting || greeting.metadata.deletionTimestamp) return; // the garbage collector deletes the ConfigMap
	const shout = greeting.spec.text.toUpperCase();
	const child = children.get(`shout-${name}`, namespace);
	if (!child) {
		const { apiVersion, kind, metadata: { uid } } = greeting;
		const ownerReferences = [{ apiVersion, kind, name, uid, controller: true }];
		await core.createNamespacedConfigMap({ namespace,
			body: { metadata: { name: `shout-${name}`, ownerReferences }, data: { text: shout } } });
	} else if (child.data?.text !== shout) {
		await core.replaceNamespacedConfigMap({ namespace, name: child.metadata.name,
			body: { ...child, data: { text: shout } } });
	}
	if (greeting.status?.shout !== shout) {
		await custom.replaceNamespacedCustomObjectStatus({ ...kind, namespace, name,
			body: { ...greeting, status: { shout } } });
	}
}

let queue = Promise.resolve();
function enqueue(namespace, name) {
	queue = queue.then(() => reconcile(namespace, name)).catch((e) => { // a conflict, too many requests, a server that is away
		console.warn(`${namespace}/${name}, again in a second: ${e.code ?? e.message}`);
		setTimeout(enqueue, 1000, namespace, name);
	});
}

for (const event of ['add', 'update']) {
	greetings.on(event, ({ metadata: { namespace, name } }) => enqueue(namespace, name));
}
for (const event of ['update', 'delete']) { // of a child, by another client
	children.on(event, ({ metadata: { namespace, ownerReferences: [owner] = [] } }) =>
		owner?.kind === 'Greeting' && enqueue(namespace, owner.name));
}
for (const informer of [children, greetings]) {
	const start = () => informer.start().catch((e) => {
		console.warn(`list and watch again in a second: ${e.message}`);
		setTimeout(start, 1000);
	});
	informer.on('error', () => setTimeout(start, 1000));
	await start();
}
setInterval(() => greetings.list().forEach(({ metadata: { namespace, name } }) => enqueue(namespace, name)), resync * 1000);
