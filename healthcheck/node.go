package healthcheck

import corev1 "k8s.io/api/core/v1"

// taintToBeDeleted is what the cluster autoscaler puts on a node before it removes it.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Eligible reports whether a node should get traffic of load balancers (KEP-3836): it
// is known, is not being deleted, and has no taint ToBeDeletedByClusterAutoscaler, whatever its
// value and effect. spec.unschedulable is no reason: a cordoned node keeps its pods. A nil
// Node is one that is not known.
//
// Keep the last answer when the watch of the Node breaks, and give it to
// [Options].NodeEligible.
func Eligible(node *corev1.Node) bool {
	if node == nil || node.DeletionTimestamp != nil {
		return false
	}
	for _, t := range node.Spec.Taints {
		if t.Key == taintToBeDeleted {
			return false
		}
	}
	return true
}
