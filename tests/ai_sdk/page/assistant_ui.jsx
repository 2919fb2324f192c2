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
import { useConversation, versionSeen } from 'documented';

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

let thread;

function Chat() {
  const runtime = useConversation();
  thread = runtime.thread;
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread />
    </AssistantRuntimeProvider>
  );
}

// What the buttons do, for tests.
window.chat = {
  get messages() {
    return thread.getState().messages.map(({ id, role, content }) => ({ id, role, parts: content }));
  },
};

// Nothing is stopped: before an answer begins, that takes the message off the page, and what is said then is another.
window.act = async ([name, { text, messageId }]) => {
  const before = versionSeen();
  const last = thread.getState().messages.at(-1);
  if (name === 'sendMessage' && messageId) {
    const { composer } = thread.getMessageById(messageId);
    composer.beginEdit();
    composer.setText(text);
    composer.send();
  } else if (name === 'sendMessage') thread.append(text);
  else if (messageId || last.role === 'assistant') thread.getMessageById(messageId ?? last.id).reload();
  else thread.startRun({ parentId: last.id });
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  do await frame();
  while (thread.getState().isRunning);
  return versionSeen() !== before; // whether the response has arrived as a whole
};

createRoot(document.getElementById('root')).render(<Chat />);
