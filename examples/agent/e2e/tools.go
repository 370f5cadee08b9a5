//go:build tools

// Package tools pins the versions of a real control plane: etcd, the API server and
// the controllers, and of kube-proxy. They are a module of their own, as nothing else here needs them.
package tools

import (
	_ "go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-proxy/app"
)
