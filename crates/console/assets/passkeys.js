// Passkeys: asks the authenticator what a form says, puts the answers into the form, and sends it. A form without this file says that it needs
// JavaScript.
'use strict';
(() => {
  const WORDS = {
    NotAllowedError: 'Nothing was sent: the passkey was not used in time, or you cancelled.',
    InvalidStateError: 'Nothing was sent: this authenticator has a passkey for this console already.',
    SecurityError: 'Nothing was sent: browsers offer no passkeys at this address.',
    NotSupportedError: 'Nothing was sent: this authenticator cannot be used here.',
  };
  const key = window.PublicKeyCredential;
  const canAsk = Boolean(key && key.parseRequestOptionsFromJSON && key.parseCreationOptionsFromJSON && key.prototype.toJSON);

  async function answer(form) {
    // One after the other: a person answers one question at a time.
    for (const field of form.querySelectorAll('input[data-get], input[data-create]')) {
      const credential = field.dataset.get
        ? await navigator.credentials.get({ publicKey: key.parseRequestOptionsFromJSON(JSON.parse(field.dataset.get)) })
        : await navigator.credentials.create({ publicKey: key.parseCreationOptionsFromJSON(JSON.parse(field.dataset.create)) });
      field.value = JSON.stringify(credential.toJSON());
    }
  }

  for (const form of document.querySelectorAll('form[data-passkey]')) {
    const status = form.querySelector('[data-passkey-status]');
    const button = form.querySelector('button[type=submit]');
    if (!canAsk) {
      status.textContent = 'This browser has no passkeys, or they are too old. Use a current browser.';
      continue;
    }
    button.hidden = false;
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      button.disabled = true;
      status.textContent = 'Your browser asks for your passkey …';
      try {
        await answer(form);
        status.textContent = '';
        form.submit();
      } catch (error) {
        status.textContent = WORDS[error.name] ?? `Nothing was sent: ${error.name}.`;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
