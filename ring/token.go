package ring

import "github.com/cespare/xxhash/v2"

// stream yields the positions of a member's tokens in order: SplitMix64, seeded with the hash of
// the name.
//
// Names and numbers are not concatenated, so different pairs cannot collide. A member that gets
// more tokens keeps those it has.
type stream uint64

func newStream(member string) stream {
	return stream(xxhash.Sum64String(member))
}

func (s *stream) next() (position uint64) {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return positionOf(z ^ z>>31)
}
