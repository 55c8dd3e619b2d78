// Package referee compares what processes of this machine say that they did, and when. Their clocks
// are one, so that two of them that worked at once are found.
package referee
