package sharder

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// stripDeselected removes the ring's marks from the objects of a resource that its Selector no
// longer selects. It leaves those whose shard may be at work to that shard, which does the same.
func (s *session) stripDeselected(ctx context.Context, index int) error {
	selector := s.resources[index].Selector
	patches := s.newStripper()
	defer patches.wait() // those that could not be stripped are found again by the next scan
	for _, left := range deselected(selector, s.keys.Shard) {
		for _, src := range s.sources(index, left) {
			var failure error
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if selector.Matches(labels.Set(o.Labels)) {
					return true
				}
				_, failure = patches.stripUnlessOwned(ctx, index, o, unbegun{})
				return failure == nil && ctx.Err() == nil
			})
			if err := cmp.Or(failure, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// deselected returns selectors that together select every object with a label that this selector
// does not select: for each of its requirements, the objects that do not meet it. For a requirement
// that a number be greater or less than another, all objects with the label are selected.
func deselected(selector labels.Selector, label string) []labels.Selector {
	requirements, _ := selector.Requirements()
	var all []labels.Selector
	for _, r := range requirements {
		left := with(labels.Everything(), label, selection.Exists)
		switch values := r.ValuesUnsorted(); r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			left = with(left, r.Key(), selection.NotIn, values...)
		case selection.NotIn, selection.NotEquals:
			left = with(left, r.Key(), selection.In, values...)
		case selection.Exists:
			left = with(left, r.Key(), selection.DoesNotExist)
		case selection.DoesNotExist:
			left = with(left, r.Key(), selection.Exists)
		}
		all = append(all, left)
	}
	return all
}
