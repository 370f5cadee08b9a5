// Package score judges whole Service proxies, kube-proxy and vipkit alike, by the scenarios of package backendtest, from
// outside: objects in, packets out.
package score
