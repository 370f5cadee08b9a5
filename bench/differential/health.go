package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/internal/ip"
)

// maxAnswer bounds what is read of a health check's answer.
const maxAnswer = 64 << 10

// health asks every health-check port at the node's addresses of the Service's families.
func (c *comparison) health(ctx context.Context, cl *cluster) (diffs []difference) {
	for _, k := range sortedKeys(cl.services) {
		s := cl.services[k]
		if s.Spec.HealthCheckNodePort == 0 {
			continue
		}
		for _, a := range nodeAddrs() {
			if !hasFamily(s, ip.Family(a)) {
				continue
			}
			at := net.JoinHostPort(a.String(), fmt.Sprint(s.Spec.HealthCheckNodePort))
			d := difference{Kind: "health", Probe: k + " " + at, Got: map[string]string{}}
			same := true
			for _, one := range c.contenders {
				d.Got[one.name] = get(ctx, one.lab, at)
				same = same && d.Got[one.name] == d.Got[c.contenders[0].name]
			}
			c.count("health checks", 1)
			if !same {
				diffs = append(diffs, d)
			}
		}
	}
	return diffs
}

func hasFamily(s *corev1.Service, f corev1.IPFamily) bool {
	for _, have := range s.Spec.IPFamilies {
		if have == f {
			return true
		}
	}
	return false
}

// get asks from the node itself, and returns status, number of endpoints and weight.
func get(ctx context.Context, lab *netlab.Lab, at string) string {
	ctx, cancel := context.WithTimeout(ctx, medium)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
		err = lab.Namespace(netlab.NodeName).Do(func() error {
			conn, err = net.DialTimeout(network, address, time.Second)
			return err
		})
		return conn, err
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/healthz", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	switch {
	case err != nil && strings.Contains(err.Error(), "refused"):
		return refused
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	var answer struct{ LocalEndpoints int }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d local=%d weight=%s", resp.StatusCode, answer.LocalEndpoints, resp.Header.Get("X-Load-Balancing-Endpoint-Weight"))
}
