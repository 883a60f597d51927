package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const completionHelp = `Print a script that makes a shell complete the commands and flags of quoin.

  bash         quoin completion bash >/etc/bash_completion.d/quoin, or in this shell alone:
               source <(quoin completion bash)
  zsh          quoin completion zsh >"${fpath[1]}/_quoin"
  fish         quoin completion fish >~/.config/fish/completions/quoin.fish
  powershell   quoin completion powershell | Out-String | Invoke-Expression`

// completeForms makes a shell complete the values of --output, of cmd and all below it.
func completeForms(cmd *cobra.Command) {
	if cmd.Flags().Lookup("output") != nil {
		cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formTable, formTabs, formJSON}, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, c := range cmd.Commands() {
		completeForms(c)
	}
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print what makes a shell complete commands",
		Long:      completionHelp,
		Args:      exactArgs(1),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			w, root := cmd.OutOrStdout(), cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return usageError{fmt.Errorf("%q is no shell that can be completed: bash, zsh, fish or powershell", args[0])}
		},
	}
}
