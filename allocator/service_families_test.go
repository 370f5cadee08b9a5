package allocator_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// mirror swaps the roles of the families, for a cluster whose primary is IPv6.
func mirror(short string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '4':
			return '6'
		case '6':
			return '4'
		}
		return r
	}, short)
}

// given returns the edits for the first column of the creation matrix.
func given(ips string) []edit {
	switch ips {
	case "None":
		return []edit{headless}
	case "None, no selector":
		return []edit{headless, noSelector}
	}
	texts := map[rune]string{'4': "10.96.0.9", '6': "fd00:10:96::9"}
	var list []string
	for _, c := range ips {
		list = append(list, texts[c])
	}
	return []edit{withIPs(list...)}
}

// A matrixRow has the results for the policies nil, S, P, R; "E" is an error.
type matrixRow struct {
	ips, families string
	want          [4]string
}

func checkMatrix(t *testing.T, clusterFamilies string, rows []matrixRow, swap func(string) string) {
	t.Helper()
	config := allocator.ClusterConfig{Families: families(clusterFamilies)}
	for _, row := range rows {
		for i, short := range []string{"", "S", "P", "R"} {
			ips, fams, want := row.ips, swap(row.families), swap(row.want[i])
			if !strings.HasPrefix(ips, "None") {
				ips = swap(ips)
			}
			name := fmt.Sprintf("4.3 cluster %s clusterIPs %q families %q policy %q", clusterFamilies, ips, fams, short)
			t.Run(name, func(t *testing.T) {
				svc := service(append(given(ips), withFamilies(fams), withPolicy(short))...)
				got := "E"
				plan, errs := allocator.Plan(nil, svc, config)
				if errs == nil {
					got = shortFamilies(plan.Service)
				}
				if got != want {
					t.Errorf("got %s (%v), want %s", got, errs, want)
				}
			})
		}
	}
}

// headlessRows are the same on every cluster.
func headlessRows() []matrixRow {
	return []matrixRow{
		{"None, no selector", "", [4]string{"R/46", "S/4", "P/46", "R/46"}},
		{"None, no selector", "4", [4]string{"R/46", "S/4", "P/46", "R/46"}},
		{"None, no selector", "6", [4]string{"R/64", "S/6", "P/64", "R/64"}},
		{"None, no selector", "46", [4]string{"R/46", "E", "P/46", "R/46"}},
		{"None, no selector", "64", [4]string{"R/64", "E", "P/64", "R/64"}},
	}
}

func TestCreationMatrix(t *testing.T) {
	all := func(cell string) [4]string { return [4]string{cell, cell, cell, cell} }
	rows := append([]matrixRow{
		{"", "", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"", "4", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"", "6", [4]string{"S/6", "S/6", "P/64", "R/64"}},
		{"", "46", [4]string{"E", "E", "P/46", "R/46"}},
		{"", "64", [4]string{"E", "E", "P/64", "R/64"}},
		{"4", "", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"4", "4", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"4", "46", [4]string{"E", "E", "P/46", "R/46"}},
		{"4", "6", all("E")},
		{"4", "64", all("E")},
		{"6", "", [4]string{"S/6", "S/6", "P/64", "R/64"}},
		{"6", "6", [4]string{"S/6", "S/6", "P/64", "R/64"}},
		{"6", "64", [4]string{"E", "E", "P/64", "R/64"}},
		{"6", "4", all("E")},
		{"6", "46", all("E")},
		{"46", "", [4]string{"E", "E", "P/46", "R/46"}},
		{"46", "4", [4]string{"E", "E", "P/46", "R/46"}},
		{"46", "46", [4]string{"E", "E", "P/46", "R/46"}},
		{"46", "6", all("E")},
		{"46", "64", all("E")},
		{"None", "", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"None", "4", [4]string{"S/4", "S/4", "P/46", "R/46"}},
		{"None", "6", [4]string{"S/6", "S/6", "P/64", "R/64"}},
		{"None", "46", [4]string{"E", "E", "P/46", "R/46"}},
		{"None", "64", [4]string{"E", "E", "P/64", "R/64"}},
	}, headlessRows()...)
	same := func(s string) string { return s }
	checkMatrix(t, "46", rows, same)
	checkMatrix(t, "64", rows, mirror)

	single := append([]matrixRow{
		{"", "", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"", "4", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"4", "", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"4", "4", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"", "6", all("E")},
		{"", "46", all("E")},
		{"", "64", all("E")},
		{"4", "46", all("E")},
		{"6", "", all("E")},
		{"46", "", all("E")},
		{"None", "", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"None", "4", [4]string{"S/4", "S/4", "P/4", "E"}},
		{"None", "6", all("E")},
	}, headlessRows()...)
	checkMatrix(t, "4", single, same)
	checkMatrix(t, "6", single, mirror)
}

func TestFamilyErrors(t *testing.T) {
	tests := []struct {
		name string
		svc  *corev1.Service
		path string
	}{
		{"4.3 the same family twice", service(withPolicy("P"), withFamilies("44")), "spec.ipFamilies[1]"},
		{"4.3 two addresses of one family", service(withPolicy("P"), withIPs("10.96.0.8", "10.96.0.9")), "spec.clusterIPs[1]"},
		{"4.3 an unknown family", service(withFamilies("5")), "spec.ipFamilies[0]"},
		{"4.3 not an address", service(withIPs("10.96.0.x")), "spec.clusterIPs[0]"},
		{"4.3 three addresses", service(withPolicy("P"), withIPs("10.96.0.8", "fd00:10:96::9", "10.96.0.9")), "spec.clusterIPs"},
		{"4.3 None and an address", service(withPolicy("P"), withIPs("None", "10.96.0.9")), "spec.clusterIPs"},
		{"4.2 create with clusterIPs but without clusterIP", service(withIPs("10.96.0.8"), func(s *corev1.Service) { s.Spec.ClusterIP = "" }), "spec.clusterIPs"},
		{"4.5 headless with a node port", service(headless, ofType(corev1.ServiceTypeNodePort)), "spec.clusterIPs[0]"},
		{"4.5 ExternalName with an address", service(withIPs("10.96.0.8"), ofType(corev1.ServiceTypeExternalName)), "spec.clusterIPs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := allocator.Plan(nil, tt.svc, allocator.ClusterConfig{Families: families("46")})
			if len(errs) == 0 || errs[0].Field != tt.path {
				t.Errorf("got %v, want an error at %s", errs, tt.path)
			}
		})
	}
	for _, short := range []string{"", "44", "465", "5"} {
		t.Run("4.6 a cluster of families "+short, func(t *testing.T) {
			if _, errs := allocator.Plan(nil, service(), allocator.ClusterConfig{Families: families(short)}); len(errs) != 1 {
				t.Errorf("got %v, want one error", errs)
			}
		})
	}
}
