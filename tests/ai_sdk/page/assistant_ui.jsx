// A chat by assistant-ui, with what docs/rest.md shows.
import {
  ActionBarPrimitive,
  AssistantRuntimeProvider,
  BranchPickerPrimitive,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAuiState,
} from '@assistant-ui/react';
import { createRoot } from 'react-dom/client';
import { useConversation } from 'documented';

function Message() {
  const role = useAuiState(state => state.message.role);
  const number = useAuiState(({ message }) => `${message.branchNumber}/${message.branchCount}`);
  return (
    <section data-number={number}>
      <article data-role={role}>
        <MessagePrimitive.Parts components={{ Text: ({ text }) => <p>{text}</p> }} />
      </article>
      <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
      <ActionBarPrimitive.Reload>Reload</ActionBarPrimitive.Reload>
      <BranchPickerPrimitive.Root hideWhenSingleBranch>
        <BranchPickerPrimitive.Previous>Previous</BranchPickerPrimitive.Previous>
        {number}
        <BranchPickerPrimitive.Next>Next</BranchPickerPrimitive.Next>
      </BranchPickerPrimitive.Root>
    </section>
  );
}

function Composer() {
  return (
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input aria-label="Message" />
      <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  );
}

function Edited() {
  return (
    <section>
      <Composer />
    </section>
  );
}

function Thread() {
  const isRunning = useAuiState(state => state.thread.isRunning);
  return (
    <main data-running={isRunning}>
      <ThreadPrimitive.Messages components={{ Message, EditComposer: Edited }} />
      <Composer />
    </main>
  );
}

function Chat() {
  const runtime = useConversation();
  window.thread = runtime.thread; // for tests
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread />
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById('root')).render(<Chat />);
