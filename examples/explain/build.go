package main

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/examples/internal/manifests"
	"github.com/vipkit/vipkit/examples/internal/nodeflags"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// buildPlan makes the plan of the node, and lists everything in the input that
// had to be left out.
func buildPlan(node *nodeflags.Flags, objects *manifests.Objects) (*plan.Plan, []plan.Problem) {
	config := node.Config()
	var problems []plan.Problem
	config.Node, problems = node.Node(objects.Nodes)
	for _, cidr := range objects.ServiceCIDRs {
		ranges, errs := readCIDRs(cidr)
		config.ServiceCIDRs = append(config.ServiceCIDRs, ranges...)
		problems = append(problems, problemsOf("ServiceCIDR "+cidr.Name, errs)...)
	}
	services := service.NewServiceChangeTracker(service.Options{})
	for _, svc := range objects.Services {
		_, errs := services.Set(svc)
		problems = append(problems, problemsOf("Service "+svc.Namespace+"/"+svc.Name, errs)...)
	}
	slices := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for _, slice := range objects.EndpointSlices {
		_, errs := slices.Set(slice)
		problems = append(problems, problemsOf("EndpointSlice "+slice.Namespace+"/"+slice.Name, errs)...)
	}
	p, _ := plan.New(config).Update(plan.Input{
		Services:  services.Take().Services,
		Endpoints: slices.Take().Sets,
	})
	return p, append(problems, p.Problems()...)
}

func problemsOf(object string, errs field.ErrorList) []plan.Problem {
	problems := make([]plan.Problem, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, plan.Problem{Object: object, Field: err.Field, Err: err.ErrorBody()})
	}
	return problems
}

func readCIDRs(cidr *networkingv1.ServiceCIDR) (ranges []netip.Prefix, errs field.ErrorList) {
	for i, text := range cidr.Spec.CIDRs {
		r, err := nodeflags.ParsePrefix(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "cidrs").Index(i), text, err.Error()))
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges, errs
}
