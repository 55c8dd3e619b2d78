package lab_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Agents of the kinds that are asked for most.
var needed = []string{
	"fence_ipmilan", "fence_redfish", "fence_aws", "fence_gce", "fence_azure_arm", "fence_openstack",
	"fence_vmware_rest", "fence_vmware_soap",
	"fence_apc_snmp", "fence_eaton_snmp", "fence_brocade", "fence_cisco_mds", "fence_scsi", "fence_dummy",
}

func TestMetadataOfAllAgents(t *testing.T) {
	t.Parallel()
	agents := newAgents(t, "")
	names, err := agents.Names()
	require.NoError(t, err)
	assert.Greater(t, len(names), 70)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metadata, err := agents.Metadata(t.Context(), name)
			if name == "fence_ack_manual" { // for people, and an agent by its name only
				assert.ErrorContains(t, err, "exit code 1")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, name, metadata.Name)
			assert.NotEmpty(t, metadata.Parameters)
			assert.Contains(t, metadata.Actions, "metadata")
			if slices.Contains(needed, name) {
				assert.Subset(t, metadata.Actions, []string{"on", "off", "status"})
			}
		})
	}
	assert.Subset(t, names, needed)
}
