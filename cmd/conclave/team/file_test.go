package team

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadFile_limit(t *testing.T) {
	s := newShell(t)
	s.File("largest.yaml", strings.Repeat("#", maxInputFile))
	s.File("large.yaml", strings.Repeat("#", maxInputFile+1))
	data, err := ReadFile("largest.yaml")
	require.NoError(t, err)
	require.Len(t, data, maxInputFile)
	_, err = ReadFile("large.yaml")
	require.ErrorContains(t, err, "more than 1048576 bytes")
}
