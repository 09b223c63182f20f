package page

import (
	"fmt"
	"net/http"
)

// Texts of refusals. The page shows them with a capital letter. A test ensures
// that other files have no texts for users.
const (
	textAnswering       = "wait for the current response to finish, or stop it first"
	textEmptyMessage    = "the message is empty"
	textOnlyResponses   = "only a response can be regenerated"
	textNoModel         = "add a model under Models first"
	textModelGone       = "%q is no longer in your library; choose another model"
	textModelUnusable   = "%s cannot be used: %s"
	textNoSuchModel     = "there is no model %.128q in the library"
	textExportForm      = "cannot export as %.32q; use json or markdown"
	textNoChats         = "there are no chats to export"
	textSearchTerm      = "enter a search term"
	textDownloadName    = "enter the name of the model to download"
	textNoDownload      = "there is no download of %q"
	textNotThePage      = "the request does not have the form that the page sends: %v"
	textNoFile          = "there is no file or folder %s"
	textMayNotRead      = "Godwit has no permission to read %s"
	textEnterPath       = "enter the path to a GGUF file or to a folder with GGUF files"
	textFullPath        = "enter the full path, such as %s"
	textNoGGUF          = "there is no GGUF file in %s"
	textNotWeb          = "%.256q is not a web address"
	textCannotSave      = "%.32q cannot be saved"
	textNotPresets      = "this is not a preset file that Godwit exported"
	textPresetVersion   = "the file has preset format version %d, but this version of Godwit reads only versions 1 to %d"
	textPresetFault     = "preset “%.80s”: %v"
	textChatField       = "the chat's settings cannot be read: %s is a %s"
	textChatSettings    = "the chat's settings cannot be read: %v"
	textLength          = "the maximum response length is %d tokens, but it must be 0 or more"
	textNoParameter     = "the chat's settings contain a sampling parameter that does not exist"
	textNoCall          = "no tool call %.64q in this chat is waiting for a result"
	textOpenCalls       = "tool calls that are still waiting for a result: %d"
	textNotID           = "%.32q is not an id"
	textNotNumber       = "%s: %.32q is not a number"
	textFlagWins        = "%s is set on the command line, which overrides the settings file"
	textPolicyWins      = "%s is set by your administrator, in the policy file %s"
	textEnvironmentWins = "%s is set in the environment, which overrides the settings file"
	textNotGGUFName     = "%.128q is not the name of a GGUF file"
	textCopying         = "%s is already being copied"
	textCopied          = "%s has already been copied"
	textNotLoaded       = "%s is not loaded"
	textWrongToken      = "the page's token is missing or from an earlier run of Godwit; reload the page"
	textClosing         = "the program is closing"
	textNoWindow        = "this works only in Godwit's own window, not in a browser"
	textNoLab           = "quality cannot be measured here"
	textMeasuring       = "%s is being measured; only one model can be measured at a time"
	textNotTuned        = "settings for individual models are not available"
	textNoEndpoint      = "unknown endpoint"
	textGone            = "this no longer exists; it may have been deleted in another window"
	textTooLarge        = "the request is larger than %d MiB"
	textNewer           = "this was written by a newer version of Godwit and cannot be read"
	textTooSlow         = "the request arrived too slowly"
	textEndedEarly      = "the request ended early"
)

// Texts of notices and of failed answers, which are whole sentences.
const (
	noticeNotStored   = "A response could not be stored: %v."
	adviceNotStored   = "This response could not be stored: %v."
	noticeLeftOut     = "The settings of the imported chat “%.80s” were left out: %.200v."
	noticeMoreLeftOut = " Number of other imported chats whose settings were left out: %d."
	adviceTooLong     = "This chat needs %s tokens, but the context holds only %s%s. Shorten the message, choose a longer context or smaller cache types under Settings › KV cache, or start a new chat."
	adviceRoom        = " (including one for the response)"
	adviceUnloaded    = "The model was unloaded during the response. Regenerate the response to load the model again."
	adviceMemory      = "%s. Choose a shorter context or smaller cache types under Settings › KV cache, or choose a smaller model."
)

// refusal is an error with its status.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.message }

// refuse returns a refusal with one of the texts.
func refuse(status int, code, text string, args ...any) error {
	return &refusal{status, code, fmt.Sprintf(text, args...)}
}

// bad returns the refusal of a request that cannot be served.
func bad(text string, args ...any) error {
	return refuse(http.StatusBadRequest, "bad_request", text, args...)
}

// of returns an error with one of the texts. class is an error class of another
// package.
func of(class error, text string, args ...any) error {
	return fmt.Errorf("%w: %s", class, fmt.Sprintf(text, args...))
}
