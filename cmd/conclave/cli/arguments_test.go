package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func TestNewRunID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 16, 30, 12, 0, time.FixedZone("", 3600))
	id := NewRunID(at)
	require.Regexp(t, `^20261121-153012-[a-z2-7]{4}$`, id)
	require.NoError(t, artifact.CheckSessionID(id))
	require.Less(t, id, NewRunID(at.Add(time.Second)), "IDs sort by time")
}
