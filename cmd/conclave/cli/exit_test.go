package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		ExitOK:          {nil, Exit(ExitOK)},
		ExitUsage:       {errors.New("an error before the start"), Exitf(ExitUsage, "x"), Exit(ExitUsage)},
		ExitNoAnswer:    {Exitf(ExitNoAnswer, "x"), fmt.Errorf("wrapped: %w", Exitf(ExitNoAnswer, "x"))},
		ExitInterrupted: {context.Canceled, fmt.Errorf("join: %w", context.Canceled), Exitf(ExitInterrupted, "%w", context.Canceled)},
	} {
		for _, err := range errs {
			require.Equal(t, want, ExitCode(err), "%v", err)
		}
	}
}
