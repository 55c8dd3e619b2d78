package sharder

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnObjectIsHandedOverWhenNothingOfItIsInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		handover
		want chore
	}{
		"mine":                      {handover{standing: assigned, version: "5"}, stayPut},
		"somebody else's":           {handover{standing: elsewhere}, stayPut},
		"of another epoch":          {handover{standing: outdated, version: "5"}, stayPut},
		"drained":                   {handover{standing: drained, version: "5"}, shut},
		"drained, at work":          {handover{standing: drained, version: "5", atWork: true}, shut},
		"drained again":             {handover{standing: drained, version: "9", floor: "7"}, shut},
		"drained, without versions": {handover{standing: drained}, shut},
		"drained, before the last acknowledgement": {handover{standing: drained, version: "5", floor: "7"}, stayPut},
		"drained, version unknown":                 {handover{standing: drained, floor: "7"}, stayPut},

		"stray":                                  {handover{standing: stray, version: "5"}, sendBack},
		"stray, before the last acknowledgement": {handover{standing: stray, version: "5", floor: "7"}, stayPut},

		"shut, at work":                     {handover{phase: closing, standing: drained, atWork: true}, awaitWork},
		"shut, at work for too long":        {handover{phase: closing, standing: drained, atWork: true, overdue: true}, cutWork},
		"shut, a request is open":           {handover{phase: closing, standing: drained, pending: true}, awaitWork},
		"shut, a request is open for long":  {handover{phase: closing, standing: drained, pending: true, overdue: true}, awaitWork},
		"shut, at work and a request open":  {handover{phase: closing, standing: drained, atWork: true, pending: true}, awaitWork},
		"shut, nothing in flight":           {handover{phase: closing, standing: drained, version: "5"}, sendAck},
		"shut, drain withdrawn":             {handover{phase: closing, standing: assigned, version: "6"}, reopen},
		"shut, drain withdrawn during work": {handover{phase: closing, standing: assigned, version: "6", atWork: true, overdue: true}, reopen},
		"shut, label removed":               {handover{phase: closing, standing: elsewhere}, reopen},
		"shut, record removed":              {handover{phase: closing, standing: stray, version: "6"}, reopen},
		"shut, sharder has moved on":        {handover{phase: closing, standing: outdated, version: "6"}, reopen},

		"sent, still drained as far as is known": {handover{phase: unsure, standing: drained, version: "5"}, readLive},
		"sent, withdrawn as far as is known":     {handover{phase: unsure, standing: assigned, version: "6"}, readLive},
		"sent, not to be seen":                   {handover{phase: unsure}, readLive},

		"acknowledged, not shown":   {handover{phase: hidden, standing: drained}, stayPut},
		"acknowledged, older shown": {handover{phase: hidden, standing: assigned}, stayPut},
		"acknowledged, shown":       {handover{phase: hidden}, settled},
	} {
		assert.Equal(t, test.want, test.next(), name)
	}
}
