package fake_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A Backend shows what a failed call left in place, here the first version.
func Example() {
	ctx := context.Background()
	var b fake.Backend
	c := caller{Backend: &b, plan: plan.New(plan.Config{})}

	fmt.Println("first:", c.do(ctx, web("web", "10.96.0.10", "10.0.0.1:8080")))
	b.FailCall(1, errors.New("no memory"))
	fmt.Println("second:", c.do(ctx, web("web", "10.96.0.10", "10.0.0.2:8080")))
	fmt.Println("10.96.0.10:80 goes to", c.goes("10.96.0.10:80"))
	fmt.Println("third:", c.do(ctx))
	fmt.Println("10.96.0.10:80 goes to", c.goes("10.96.0.10:80"))
	// Output:
	// first: <nil>
	// second: fake: sync: no memory
	// 10.96.0.10:80 goes to 10.0.0.1:8080
	// third: <nil>
	// 10.96.0.10:80 goes to 10.0.0.2:8080
}
