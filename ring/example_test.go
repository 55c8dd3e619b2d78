package ring_test

import (
	"fmt"

	"github.com/bellwether-k8s/bellwether/ring"
)

func Example() {
	r, err := ring.New([]string{"operator-0", "operator-1", "operator-2"})
	if err != nil {
		panic(err)
	}
	owner, _ := r.Owner("apps/Deployment/default/web")
	fmt.Println(owner)
	fmt.Println(r.Owners(nil, "apps/Deployment/default/web", 2))
	// Output:
	// operator-1
	// [operator-1 operator-0]
}

// The values of the package documentation.
func Example_placement() {
	r, err := ring.New([]string{"a", "b", "c"}, ring.WithTokens(2))
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"apple", "banana", "key-3"} {
		fmt.Println(key, r.Owners(nil, key, 3))
	}
	// Output:
	// apple [c b a]
	// banana [a b c]
	// key-3 [b a c]
}

func ExampleNew_weights() {
	r, err := ring.New([]string{"small", "large"}, ring.WithWeights(map[string]int{"large": 3}))
	if err != nil {
		panic(err)
	}
	for _, share := range ring.Moves(&ring.Ring{}, r) {
		fmt.Printf("%s owns %.0f %% of the keys\n", share.To, 100*share.Fraction)
	}
	// Output:
	// large owns 74 % of the keys
	// small owns 26 % of the keys
}

// A key that is put together for every object need not be allocated for each.
func ExampleRing_OwnerBytes() {
	r, err := ring.New([]string{"operator-0", "operator-1", "operator-2"})
	if err != nil {
		panic(err)
	}
	var key []byte
	for _, name := range []string{"web", "api", "cache"} {
		key = append(key[:0], "apps/Deployment/default/"...)
		key = append(key, name...)
		owner, _ := r.OwnerBytes(key)
		fmt.Println(name, owner)
	}
	// Output:
	// web operator-1
	// api operator-2
	// cache operator-1
}

func ExampleMoves() {
	before, err := ring.New([]string{"operator-0", "operator-1", "operator-2"})
	if err != nil {
		panic(err)
	}
	after, err := ring.New([]string{"operator-0", "operator-1", "operator-2", "operator-3"})
	if err != nil {
		panic(err)
	}
	for _, move := range ring.Moves(before, after) {
		fmt.Printf("%s to %s: %.1f %%\n", move.From, move.To, 100*move.Fraction)
	}
	// Output:
	// operator-0 to operator-3: 6.8 %
	// operator-1 to operator-3: 8.0 %
	// operator-2 to operator-3: 9.7 %
}

func ExampleNewBounded() {
	r, err := ring.New([]string{"a", "b", "c"})
	if err != nil {
		panic(err)
	}
	keys := make([]string, 3000)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	bounded, err := ring.NewBounded(r, keys, 0.01)
	if err != nil {
		panic(err)
	}
	onRing, assigned := map[string]int{}, map[string]int{}
	for _, key := range keys {
		owner, _ := r.Owner(key)
		onRing[owner]++
		owner, _ = bounded.Owner(key)
		assigned[owner]++
	}
	fmt.Println("on the ring:", onRing)
	fmt.Println("bounded:", assigned, "diverted:", bounded.Diverted())
	// Output:
	// on the ring: map[a:1024 b:1053 c:923]
	// bounded: map[a:1010 b:1010 c:980] diverted: 57
}
