// Package leaderforlife elects
package leaderforlife
