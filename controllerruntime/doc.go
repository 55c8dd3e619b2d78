// Package controllerruntime connects the packages of this project to controllers that are made with
// sigs.k8s.io/controller-runtime. It is a module of its own, so that other programs do not get
// controller-runtime as a dependency.
package controllerruntime
