package files

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnread(t *testing.T) {
	t.Parallel()
	sdk := errors.New("read s3://b/k: checksum did not match: algorithm CRC32, expect AAAAAA==, actual i9aeUg==")
	require.Equal(t, "read s3://b/k: its content does not match the checksum in the store", readErrorText(sdk))
	require.Equal(t, "other", readErrorText(errors.New("other")))
}
